import type { Word } from "../command.ts";
import { type FlagWords, type Value, type Vocabulary, valueFlags } from "./words.ts";

/** The script for zsh: for an autoloaded file `_vidgen`, or to be sourced after compinit. */
export function formatZsh(words: Vocabulary): string {
  const { commands, flags } = words;
  const takesValue = valueFlags(words);
  const known = takesValue.filter(({ value }) => value !== "anything");
  return `#compdef vidgen
# Completion of vidgen for zsh. In ~/.zshrc, after compinit: source <(vidgen completion zsh)
_vidgen() {
  local piece command='' flag='' over='' kind=''
  local -a rows
  integer i seen=0
  for ((i = 2; i < CURRENT; i++)); do
    piece=$words[i]
    if [[ -n $flag ]]; then
      flag=''
    elif [[ -z $over && $piece == -- ]]; then
      over=1
    elif [[ -z $over && $piece == -?* ]]; then
      case $piece in
        (${takesValue.flatMap(({ names }) => names).join("|")}) flag=$piece ;;
      esac
    elif [[ -z $command ]]; then
      command=$piece
    else
      ((seen += 1))
    fi
  done

  if [[ -z $flag && -z $over && $PREFIX == --*=* ]]; then
    flag=\${PREFIX%%=*}
    compset -P 1 '*='
  fi
  if [[ -n $flag ]]; then
    case $flag in
${known.map(({ names, value }) => `      (${names.join("|")}) ${assign(value)} ;;`).join("\n")}
    esac
  elif [[ -z $over && $PREFIX == -* ]]; then
    case $command in
      ('') ${assign(flagRows(flags))} ;;
${commands.map(({ name, flags: own }) => `      (${name}) ${assign(flagRows([...own, ...flags]))} ;;`).join("\n")}
    esac
  else
    case $command:$seen in
      (:0) ${assign(commands.map(({ name, summary }) => [name, summary] as const))} ;;
${commands
  .filter(({ argument }) => argument.value !== "anything")
  .map(({ name, argument }) => `      (${name}:${argument.isVariadic ? "*" : "0"}) ${assign(argument.value)} ;;`)
  .join("\n")}
    esac
  fi

  case $kind in
    # A word that would be expanded is nothing to look for among the files.
    (files) [[ $PREFIX == *[\\$\\\`]* ]] || _files ;;
    (ids)
      local -a ids shown
      while IFS=$'\\t' read -r piece flag; do
        ids+=("$piece") shown+=("$piece  $flag")
      done < <(command vidgen __complete ids 2>/dev/null </dev/null)
      compadd -V ids -l -d shown -a ids
      ;;
    (*) ((\${#rows})) && _describe -V vidgen rows ;;
  esac
}
if [[ $funcstack[1] == _vidgen ]]; then
  _vidgen
else
  compdef _vidgen vidgen
fi`;
}

function flagRows(flags: FlagWords[]): Word[] {
  return flags.map(({ long, description }) => [long, description]);
}

function assign(value: Value): string {
  return typeof value === "string" ? `kind=${value}` : `rows=(${value.map(formatRow).join(" ")})`;
}

/** `word:description`, as _describe wants it. */
function formatRow([word, description]: Word): string {
  const row = description === "" ? word.replaceAll(":", "\\:") : `${word.replaceAll(":", "\\:")}:${description}`;
  return `'${row.replaceAll("'", "'\\''")}'`;
}
