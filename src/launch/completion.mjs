// Scripts with which a shell completes the command line of the npm package. They are made when the package is built,
// from the help of its commands, so each flag is declared once.

/** Name of the program. */
const PROGRAM = 'triton-serving';
export const SHELLS = ['bash', 'zsh', 'fish'];

/**
 * The flags in the help of a command.
 * @param help {string}
 * @returns {{ name: string, value: string | undefined, text: string }[]} `value` as the help names it
 */
export function readFlags(help) {
  return [...help.matchAll(/^ {2}--([a-z0-9-]+)(?: ("[^"]*"|[^ ]+))? +([^ ].*)$/gm)].map(([, name, value, text]) => ({
    name,
    value,
    text,
  }));
}

/**
 * The script for a shell.
 * @param shell {string} one of SHELLS
 * @param commands {{ name: string, text: string, flags: ReturnType<typeof readFlags> }[]}
 * @returns {string}
 */
export function completionScript(shell, commands) {
  return { bash, zsh, fish }[shell](commands);
}

function bash(commands) {
  const cases = commands.map(({ name, flags }) => `      ${name}) words='${flags.map(flagOf).join(' ')}' ;;`);
  return `# For ~/.bashrc: source <(${PROGRAM} completion bash)
_triton_serving() {
  local words=''
  if ((COMP_CWORD == 1)); then
    words='${commands.map(({ name }) => name).join(' ')}'
  elif [[ \${COMP_WORDS[COMP_CWORD]} == -* ]]; then
    case \${COMP_WORDS[1]} in
${cases.join('\n')}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _triton_serving ${PROGRAM}
`;
}

function zsh(commands) {
  const list = commands.map(({ name, text }) => `    ${quote(`${name}:${text}`)}`);
  const flag = ({ name, value, text }) =>
    quote(`*--${name}[${escape(text)}]${value === undefined ? '' : ':value:_files'}`);
  const cases = commands.map(
    ({ name, flags }) => `    ${name}) _arguments ${[...flags.map(flag), "'*:file:_files'"].join(' ')} ;;`,
  );
  return `#compdef ${PROGRAM}
# For ~/.zshrc, after compinit: source <(${PROGRAM} completion zsh)
_triton_serving() {
  local -a commands=(
${list.join('\n')}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
${cases.join('\n')}
  esac
}
compdef _triton_serving ${PROGRAM}
`;
}

function fish(commands) {
  const lines = commands.flatMap(({ name, text, flags }) => [
    `complete -c ${PROGRAM} -n __fish_use_subcommand -f -a ${name} -d ${quote(text)}`,
    ...flags.map(
      (flag) =>
        `complete -c ${PROGRAM} -n '__fish_seen_subcommand_from ${name}' -l ${flag.name}${flag.value === undefined ? '' : ' -r'} -d ${quote(flag.text)}`,
    ),
  ]);
  return `# For ~/.config/fish/config.fish: ${PROGRAM} completion fish | source
${lines.join('\n')}
`;
}

const flagOf = ({ name }) => `--${name}`;

/** Text for zsh's _arguments, in which brackets and colons end a part. */
const escape = (text) => text.replace(/[[\]:\\]/g, String.raw`\$&`);

const quote = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
