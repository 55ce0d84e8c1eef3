/** Allowed imports between folders; docs/architecture.md gives the reasons. `npm run check` enforces them. */

/** Layers of src, the lowest first: a folder may import only folders of the rows before its own. */
const LAYERS = [
  ['core'],
  ['cli', 's3', 'triton'],
  ['model'],
  ['release'],
  ['publish', 'agent'],
  ['local'],
  ['commands'],
];

const layer = (folders) => `^src/(${folders.join('|')})/`;

const upward = LAYERS.map((folders, row) => {
  const above = LAYERS.slice(row + 1).flat();
  const beside = folders.flatMap((folder) =>
    folders.filter((other) => other !== folder).map((other) => [folder, other]),
  );
  return [
    ...(above.length === 0 ? [] : [{ from: { path: layer(folders) }, to: { path: layer(above) } }]),
    ...beside.map(([folder, other]) => ({ from: { path: layer([folder]) }, to: { path: layer([other]) } })),
  ];
}).flat();

const forbidden = [
  ...upward.map((rule) => ({ name: 'src: a layer imports only those below it', ...rule })),
  { name: 'src imports src only', from: { path: '^src/' }, to: { path: '^(infra|policy|scripts|tools|test)/' } },
  {
    name: 'src has no folder without a layer',
    from: {},
    to: { path: '^src/', pathNot: layer(LAYERS.flat()) },
  },
  {
    name: 'infra imports infra and src only',
    from: { path: '^infra/' },
    to: { path: '^(policy|scripts|tools|test)/' },
  },
  { name: 'policy imports no commands and tests', from: { path: '^policy/' }, to: { path: '^(scripts|tools|test)/' } },
  { name: 'scripts import no tools and tests', from: { path: '^scripts/' }, to: { path: '^(tools|test)/' } },
  { name: 'tools import no tests', from: { path: '^tools/' }, to: { path: '^test/' } },
  { name: 'test/support imports no tests', from: { path: '^test/support/' }, to: { path: '^test/(?!support/)' } },
  {
    name: 'tests of npm test need no Go',
    from: { path: '^test/real/', pathNot: '\\.slow\\.test\\.ts$' },
    to: { path: '^tools/toolchain/go\\.ts$', reachable: true },
  },
  {
    name: 'infra and policy have no circles, also of types',
    from: { path: '^(infra|policy)/' },
    to: { circular: true },
  },
  { name: 'no circles', from: {}, to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } } },
];

export default {
  forbidden: forbidden.map((rule) => ({ severity: 'error', ...rule })),
  options: {
    doNotFollow: { path: 'node_modules' },
    // Also checks imports of types, because these tie files together as well.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
  },
};
