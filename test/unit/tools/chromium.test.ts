import { missingPackages } from '../../../tools/toolchain/chromium';

test('what apt would install, with versions; what it says besides is left out', () => {
  const said = `NOTE: This is only a simulation!
Reading package lists...
The following NEW packages will be installed:
  chromium-headless-shell libopus0
Inst libopus0 (1.3.1-3 Debian:12.15/oldstable [amd64])
Inst libnss3 [2:3.87-1] (2:3.87.1-1+deb12u2 Debian-Security:12/oldstable-security [amd64]) []
Inst chromium-headless-shell (156.0.8078.79-1~deb12u1 Debian-Security:12/oldstable-security [amd64])
Conf libopus0 (1.3.1-3 Debian:12.15/oldstable [amd64])
`;
  expect(missingPackages(said)).toEqual([
    'libopus0=1.3.1-3',
    'libnss3=2:3.87.1-1+deb12u2',
    'chromium-headless-shell=156.0.8078.79-1~deb12u1',
  ]);
  expect(missingPackages('0 upgraded, 0 newly installed\n')).toEqual([]);
});
