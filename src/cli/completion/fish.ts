import type { Word } from "../command.ts";
import { type FlagWords, type Value, type Vocabulary, valueFlags } from "./words.ts";

/** The script for fish. */
export function formatFish(words: Vocabulary): string {
  const { commands, flags } = words;
  const takesValue = valueFlags(words)
    .flatMap(({ names }) => names)
    .join(" ");
  return `# Completion of vidgen for fish. In ~/.config/fish/config.fish: vidgen completion fish | source
# The command that was typed, then how many arguments it has already.
function __vidgen_typed
    set -l command ''
    set -l seen 0
    set -l flag ''
    set -l over ''
    set -l typed (commandline -opc)
    set -e typed[1]
    for word in $typed
        if test -n "$flag"
            set flag ''
        else if test -z "$over" -a "x$word" = x--
            set over 1
        else if test -z "$over"; and string match -q -- '-?*' "$word"
            if contains -- "$word" ${takesValue}
                set flag "$word"
            end
        else if test -z "$command"
            set command "$word"
        else
            set seen (math $seen + 1)
        end
    end
    printf '%s\\n' "$command" $seen
end
function __vidgen_in
    set -l typed (__vidgen_typed)
    test "x$typed[1]" = "x$argv[1]"
end
function __vidgen_first
    set -l typed (__vidgen_typed)
    test "x$typed[1]" = "x$argv[1]" -a "$typed[2]" = 0
end
complete -c vidgen -e
complete -c vidgen -f
${[
  ...commands.map(({ name, summary }) => `complete -c vidgen -n '__vidgen_in ""' -a ${name} -d ${quote(summary)}`),
  ...flags.map((flag) => formatFlag(flag, "")),
  "complete -c vidgen -s h -l help -d 'print this help'",
  ...commands.flatMap(({ name, flags }) =>
    flags.filter(({ long }) => long !== "--help").map((flag) => formatFlag(flag, ` -n '__vidgen_in ${name}'`)),
  ),
  ...commands.flatMap(({ name, argument: { value, isVariadic } }) =>
    value === "anything"
      ? []
      : [`complete -c vidgen -n '${isVariadic ? "__vidgen_in" : "__vidgen_first"} ${name}'${formatValue(value)}`],
  ),
].join("\n")}`;
}

function formatFlag({ short, long, description, value }: FlagWords, condition: string): string {
  const name = `${short === undefined ? "" : ` -s ${short.slice(1)}`} -l ${long.slice(2)}`;
  const takes = value === undefined ? "" : " -r";
  return `complete -c vidgen${condition}${name}${takes}${value === undefined ? "" : formatValue(value)} -d ${quote(description)}`;
}

function formatValue(value: Value): string {
  if (value === "files") return " -F";
  if (value === "anything") return " -f";
  if (value === "ids") return " -k -a '(command vidgen __complete ids 2>/dev/null </dev/null)'";
  return ` -f -k -a ${quote(value.map(formatWord).join(" "))}`;
}

/** fish reads the words behind -a once more: a description is quoted there, too. */
function formatWord([word, description]: Word): string {
  return description === "" ? word : `${word}\\t${quote(description)}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
