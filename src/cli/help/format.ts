import { type CommandUnknownOpts, Help, type Option } from "@commander-js/extra-typings";
import { detailsOf } from "../command.ts";
import { wrapWords } from "../terminal/text.ts";
import { topicNames } from "./topics.ts";

/**
 * The help of a command: examples first, global flags last. In the program's help, the global flags follow
 * the commands. A command with main flags shows only those, unless `all`.
 */
export function formatHelp(command: CommandUnknownOpts, helper: Help, { all }: { all: boolean }): string {
  const { examples, mainFlags, after } = detailsOf(command);
  const allFlags = [...helper.visibleOptions(command), ...helper.visibleGlobalOptions(command)];
  const isShort = mainFlags !== undefined && !all;
  const flags = isShort ? allFlags.filter((flag) => mainFlags.includes(flag.long ?? "")) : allFlags;
  const more = `\`vidgen ${command.name()} --help --all\` shows all ${allFlags.length} flags.`;
  const isProgram = command.parent === null;
  const layout: Help = Object.assign(Object.create(helper), {
    showGlobalOptions: false,
    visibleOptions: () => (isProgram ? [] : flags),
  });
  const parts = [
    `Examples:\n${examples.map((line) => `  $ ${line}`).join("\n")}`,
    Help.prototype.formatHelp.call(layout, command, layout).trimEnd(),
    ...(isProgram ? [formatFlags(flags, helper), formatTopicNames(helper)] : []),
    ...(isShort ? [wrapWords(more, widthOf(helper))] : []),
    ...(after === undefined ? [] : [wrapWords(after, widthOf(helper))]),
  ];
  return `${parts.join("\n\n")}\n`;
}

function formatFlags(flags: readonly Option[], helper: Help): string {
  const width = Math.max(...flags.map((each) => each.flags.length));
  const rows = flags.map((each) => formatItem(each.flags, width, each.description, helper));
  return [flags[0]?.helpGroupHeading, ...rows].join("\n");
}

function formatTopicNames(helper: Help): string {
  const width = Math.max(...Object.keys(topicNames).map((audience) => audience.length));
  const rows = Object.entries(topicNames).map(([audience, names]) =>
    formatItem(audience, width, names.join(", "), helper),
  );
  return ["Topics, for vidgen help <topic>:", ...rows].join("\n");
}

/** Printed by `vidgen` without a command: the commands that most people need, on one screen. */
export function formatOverview(program: CommandUnknownOpts, helper: Help): string {
  const find = (name: string) => program.commands.find((each) => each.name() === name) ?? [];
  const shownGroups = Object.entries(overview).map(([heading, names]) => ({ heading, commands: names.flatMap(find) }));
  const termWidth = Math.max(...shownGroups.flatMap(({ commands }) => commands.map((each) => termOf(each).length)));
  const groups = shownGroups.map(({ heading, commands }) =>
    [heading, ...commands.map((each) => formatItem(termOf(each), termWidth, each.summary(), helper))].join("\n"),
  );
  const shownNames = Object.values(overview).flat();
  const allNames = helper.visibleCommands(program).map((each) => each.name());
  const more = `More commands: ${allNames.filter((name) => !shownNames.includes(name)).join(", ")}`;
  const parts = [
    `Makes a video from a prompt. To try it, with a preview that costs nothing:\n  $ ${detailsOf(program).examples[0]}`,
    ...groups,
    helper.boxWrap(more, widthOf(helper)),
    wrapWords("`vidgen help` has all commands and topics, `vidgen <command> --help` its flags.", widthOf(helper)),
  ];
  return `${parts.join("\n\n")}\n`;
}

const overview = {
  "Make videos:": ["generate", "again", "batch", "wait"],
  "Get information:": ["list", "status", "models"],
  "Set up:": ["login"],
};

/** The name of a command with its arguments, such as "batch <file>". */
export function termOf(command: CommandUnknownOpts): string {
  const words = command.registeredArguments.map((each) => {
    const name = `${each.name()}${each.variadic ? "..." : ""}`;
    return each.required ? `<${name}>` : `[${name}]`;
  });
  return [command.name(), ...words].join(" ");
}

function widthOf({ helpWidth = 80 }: Help): number {
  return helpWidth;
}

/** If less width than this is left beside a flag, its description goes below it. */
const minDescription = 40;

export function formatItem(term: string, termWidth: number, description: string, helper: Help): string {
  const width = widthOf(helper);
  if (width - termWidth >= minDescription + 4)
    return Help.prototype.formatItem.call(helper, term, termWidth, description, helper);
  const lines = helper.boxWrap(description, width - 6).split("\n");
  return [`  ${term}`, ...lines.map((line) => `      ${line}`)].join("\n");
}
