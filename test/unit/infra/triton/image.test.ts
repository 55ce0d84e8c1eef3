import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultImage, imageFault } from '../../../../infra/triton/image';
import { paths } from '../../../../src/core/paths';
import { CPU_VARIABLES, LOAD_ALL_FLAG } from '../../../../src/triton/serving';
import { render } from '../../../support/render';

test('defaultImage is the base image of the Dockerfile', () => {
  const text = readFileSync(join(paths.root, 'Dockerfile'), 'utf8');
  const release = /TRITON_RELEASE=(.*)/.exec(text)?.[1] ?? '';
  const from = /^FROM (\S+) AS base$/m.exec(text)?.[1] ?? '';
  expect(release).not.toBe('');
  expect(defaultImage()).toBe(from.replace('${TRITON_RELEASE}', release));
  expect(imageFault(defaultImage())).toBeUndefined();
});

const DIGEST = `@sha256:${'a'.repeat(64)}`;
const MOVED = 'it may be another image at the next start';

test.each([
  ['registry.example/tritonserver:1.2.3', undefined],
  ['123456789012.dkr.ecr.eu-central-1.amazonaws.com/team/triton_server--gpu:26.10-py3', undefined],
  ['registry.example:443/a/b/c:1', undefined],
  [`triton${DIGEST}`, undefined],
  [`triton:latest${DIGEST}`, undefined],
  ['triton:latest', MOVED],
  ['triton', MOVED],
  ['registry:5000/triton', MOVED],
  ['triton@sha256:abc', ''],
  ['triton:1 ', ''],
  ['my triton:1', ''],
  ['https://registry.example/triton:1', ''],
  ['registry.example/Triton:1', ''],
  ['registry.example//triton:1', ''],
  ['registry:port/triton:1', ''],
  ['triton:1:2', ''],
  [`triton:${'a'.repeat(129)}`, ''],
  [`triton${DIGEST}b`, ''],
  [`triton${DIGEST.toUpperCase()}`, ''],
  [`a${'b'.repeat(40)}_:1`, ''],
])('imageFault(%j) has the reason %j', (image, expected) => {
  expect(imageFault(image)?.reason).toBe(expected);
});

describe('the same in the container, the Dockerfile and the local server', () => {
  const text = (...path: string[]): string => readFileSync(join(paths.root, ...path), 'utf8');

  interface Container {
    args: string[];
    env: { name: string; value?: string }[];
  }
  const container = async (more?: Parameters<typeof render>[0]): Promise<Container> => {
    const spec = (await render(more)).only('Deployment')['spec'] as {
      template: { spec: { containers: [Container] } };
    };
    return spec.template.spec.containers[0];
  };

  test('are the program and its flags', async () => {
    const [, entryPoint = '[]'] = /^ENTRYPOINT (\[[^\]]*\])/m.exec(text('Dockerfile').replace(/\\\n\s*/g, '')) ?? [];
    const words = JSON.parse(entryPoint) as string[];
    expect(words.length).toBeGreaterThan(6);
    const { args } = await container();
    expect(args[0]).toBe(words[0]);
    // The shell of the image puts the guard of model control behind these. In pods, the agent loads the models.
    const started = words.slice(words.indexOf('tritonserver')).filter((word) => word !== LOAD_ALL_FLAG);
    const isOfPlace = (word: string): boolean =>
      /^--(model-repository|http-restricted-api|grpc-restricted-protocol|grpc-max-connection-age|metrics-config)=/.test(
        word,
      );
    expect(
      args
        .slice(1)
        .filter((word) => !isOfPlace(word))
        .sort(),
    ).toEqual(started.sort());
  });

  test.each([0, 1])('are the variables for models on the CPU, with %d GPUs', async (gpusPerPod) => {
    const variables = Object.entries(CPU_VARIABLES).map(([name, value]) => ({ name, value }));
    expect(variables).toHaveLength(2);
    expect((await container({ gpusPerPod })).env).toEqual(expect.arrayContaining(variables));
    const image = [...text('Dockerfile').matchAll(/^ENV (\w+)=(\S+)$/gm)].map(([, name, value]) => ({ name, value }));
    expect(image).toEqual(expect.arrayContaining(variables));
  });
});
