import { AGENT_IMAGE } from '../../../infra/triton/image';
import { parseDockerfile, readText } from './read';

interface DevContainer {
  build: { dockerfile: string; options: string[] };
  runArgs: string[];
  remoteUser: string;
  mounts: string[];
}

const container = JSON.parse(readText('.devcontainer/devcontainer.json')) as DevContainer;
const instructions = parseDockerfile(readText(`.devcontainer/${container.build.dockerfile}`));
const runs = instructions.filter(({ name }) => name === 'RUN').map(({ value }) => value);

test('the development container has the Node of .node-version, in the image of the agent', () => {
  const [from] = instructions.filter(({ name }) => name === 'FROM').map(({ value }) => value);
  expect(from).toBe(AGENT_IMAGE);
  expect(from).toContain(`/node:${readText('.node-version').trim()}.`);
});

test("the development container runs Triton's binary: x86-64, and Python with its shared library", () => {
  for (const options of [container.build.options, container.runArgs])
    expect(options).toContain('--platform=linux/amd64');
  expect(runs.join('\n')).toMatch(/apt-get install [^&]* libpython3-dev python3 python3-pip/);
});

test('the user of the development container may write its cache', () => {
  const folder = /target=([^,]*)/.exec(container.mounts[0] ?? '')?.[1];
  expect(folder).toBe(`/home/${container.remoteUser}/.cache`);
  expect(runs).toContain(
    `install --directory --owner=${container.remoteUser} --group=${container.remoteUser} ${folder}`,
  );
});
