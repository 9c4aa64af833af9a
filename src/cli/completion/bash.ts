import { type Value, type Vocabulary, valueFlags } from "./words.ts";

/** The script for bash. What was typed is compared and cut, never expanded: no compgen -W, no eval. */
export function formatBash(words: Vocabulary): string {
  const { commands, flags } = words;
  const takesValue = valueFlags(words);
  const longs = (of: { long: string }[]) => of.map(({ long }) => long).join(" ");
  const known = takesValue.filter(({ value }) => value !== "anything");
  return `# Completion of vidgen for bash. In ~/.bashrc: source <(vidgen completion bash)
_vidgen() {
  COMPREPLY=()
  # bash splits words at = and : as well; here they are put together again, up to the cursor.
  local line=\${COMP_LINE:0:COMP_POINT} words=("\${COMP_WORDS[0]}") piece i
  line=\${line#*"\${COMP_WORDS[0]}"}
  for ((i = 1; i <= COMP_CWORD; i++)); do
    piece=\${COMP_WORDS[i]}
    if [[ $line == [[:space:]]* ]]; then
      line=\${line#"\${line%%[![:space:]]*}"}
      words+=("")
    fi
    [[ $line == "$piece"* ]] || piece=$line
    words[\${#words[@]} - 1]+=$piece
    line=\${line#"$piece"}
  done
  local last=$((\${#words[@]} - 1))
  ((last > 0)) || return 0

  local cur=\${words[last]} command='' flag='' over='' seen=0
  for ((i = 1; i < last; i++)); do
    piece=\${words[i]}
    if [[ -n $flag ]]; then
      flag=''
    elif [[ -z $over && $piece == -- ]]; then
      over=1
    elif [[ -z $over && $piece == -?* ]]; then
      case $piece in
        ${takesValue.flatMap(({ names }) => names).join("|")}) flag=$piece ;;
      esac
    elif [[ -z $command ]]; then
      command=$piece
    else
      ((seen += 1))
    fi
  done

  local candidates=() kind='' start=''
  if [[ -z $flag && -z $over && $cur == --*=* ]]; then
    flag=\${cur%%=*} start=\${cur%%=*}= cur=\${cur#*=}
  fi
  if [[ -n $flag ]]; then
    case $flag in
${known.map(({ names, value }) => `      ${names.join("|")}) ${assign(value)} ;;`).join("\n")}
    esac
  elif [[ -z $over && $cur == -* ]]; then
    case $command in
      '') candidates=(${longs(flags)} --help) ;;
${commands.map(({ name, flags: own }) => `      ${name}) candidates=(${longs([...own, ...flags])}) ;;`).join("\n")}
    esac
  else
    case $command:$seen in
      :0) candidates=(${commands.map(({ name }) => name).join(" ")}) ;;
${commands
  .filter(({ argument }) => argument.value !== "anything")
  .map(({ name, argument }) => `      ${name}:${argument.isVariadic ? "*" : "0"}) ${assign(argument.value)} ;;`)
  .join("\n")}
    esac
  fi

  case $kind in
    files) [[ $cur == *['$\`']* ]] || compopt -o default 2>/dev/null ;;
    ids)
      compopt -o nosort 2>/dev/null
      while IFS=$'\\t' read -r piece _; do
        candidates+=("$piece")
      done < <(command vidgen __complete ids 2>/dev/null </dev/null)
      ;;
  esac

  # bash replaces what stands behind the last = or : alone.
  local typed=$start$cur cut=''
  [[ $COMP_WORDBREAKS == *=* && $typed == *=* ]] && cut=\${typed%"\${typed##*=}"}
  [[ $COMP_WORDBREAKS == *:* && \${typed#"$cut"} == *:* ]] && cut=\${typed%"\${typed##*:}"}
  for piece in \${candidates[@]+"\${candidates[@]}"}; do
    if [[ $piece == "$cur"* ]]; then
      piece=$start$piece
      COMPREPLY+=("\${piece#"$cut"}")
    fi
  done
  return 0
}
complete -F _vidgen vidgen`;
}

function assign(value: Value): string {
  return typeof value === "string" ? `kind=${value}` : `candidates=(${value.map(([word]) => word).join(" ")})`;
}
