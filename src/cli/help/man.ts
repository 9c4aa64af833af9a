import { joinLines, type Page, readBlocks, readCells, readItems, readSpans } from "../../docs.ts";
import type { CommandTree, Flag } from "./tree.ts";

/**
 * The manual page `vidgen(1)` in roff's man macros, built from the commands' help and the pages. It has no
 * date, so that builds are reproducible.
 */
export function formatManual(program: CommandTree, pages: readonly Page[], version: string): string {
  const { name, description, commands = [], examples, flags } = program;
  const lines = [
    `.TH ${name.toUpperCase()} 1 "" ${quote(`${name} ${version}`)}`,
    // No hyphenation, and a ragged right margin.
    ".nh",
    ".ad l",
    ".SH NAME",
    `${text(name)} \\- ${text(firstPart(description))}`,
    ".SH SYNOPSIS",
    `.B ${text(name)}`,
    "[command] [flags]",
    ".SH DESCRIPTION",
    paragraph(description),
    ".SH COMMANDS",
    ...commands.flatMap(formatCommand),
    ".SH FLAGS OF EVERY COMMAND",
    ...flags.flatMap(formatFlag),
    ...pages.flatMap(formatPage),
    ".SH EXAMPLES",
    ...formatExamples(examples),
  ];
  return lines.join("\n");
}

function formatCommand(command: CommandTree): string[] {
  const { usage, description, arguments: parameters, flags, examples, commands = [] } = command;
  return [
    `.SS ${quote(text(usage))}`,
    paragraph(description),
    ...parameters.flatMap(({ name, description }) => formatRow([name, description])),
    ...flags.filter(({ long }) => long !== "--help").flatMap(formatFlag),
    ...formatExamples(examples),
    ...commands.flatMap(formatCommand),
  ];
}

function formatFlag({ usage, description, default: defaultValue, choices }: Flag): string[] {
  const notes = [
    ...(choices === null ? [] : [`one of ${choices.join(", ")}`]),
    ...(defaultValue === null || defaultValue === false ? [] : [`default: ${defaultValue}`]),
  ];
  return formatRow([usage, notes.length === 0 ? description : `${description} (${notes.join("; ")})`]);
}

/** A page without its title: the section has the page's name. */
function formatPage({ name, text: page }: Page): string[] {
  const [, ...blocks] = readBlocks(page);
  const parts = blocks.flatMap(({ kind, lines }) => {
    if (kind === "heading") return lines.map((heading) => `.SS ${quote(text(heading.replace(/^#+ /, "")))}`);
    if (kind === "table") return lines.slice(2).flatMap((row) => formatCells(readCells(row)));
    if (kind === "code") return formatExamples(lines);
    if (kind === "list") return readItems(lines).flatMap((item) => [".IP \\(bu 2", paragraph(item)]);
    return kind === "text" ? [".PP", paragraph(joinLines(lines))] : [];
  });
  return [`.SH ${quote(text(name.replace("-", " ").toUpperCase()))}`, ...parts];
}

/** The last cell explains the others. */
function formatCells(cells: readonly string[]): string[] {
  const terms = cells.slice(0, -1).filter((cell) => cell !== "");
  const words = readSpans(terms.join(" ")).map(({ text }) => text);
  return formatRow([words.join(""), cells.at(-1) ?? ""]);
}

function formatRow([term, meaning]: readonly [term: string, meaning: string]): string[] {
  return [".TP", `\\fB${text(term)}\\fR`, paragraph(meaning)];
}

function formatExamples(examples: readonly string[]): string[] {
  return examples.length === 0 ? [] : [".PP", ".nf", ".RS 4", ...examples.map(line), ".RE", ".fi"];
}

/** A line of Markdown: code in bold, links as their text. */
function paragraph(words: string): string {
  const isBold = (kind: string) => kind === "code" || kind === "bold";
  const spans = readSpans(words).map((span) => (isBold(span.kind) ? `\\fB${text(span.text)}\\fR` : text(span.text)));
  return guard(spans.join(""));
}

/** The description up to its first colon, beginning with a small letter, as is usual in the section NAME. */
function firstPart(description: string): string {
  const [first = ""] = description.split(":");
  return first.charAt(0).toLowerCase() + first.slice(1);
}

/** A line of text, escaped. */
function line(words: string): string {
  return guard(text(words));
}

/** roff would read a line that begins with a dot or an apostrophe as a request. */
function guard(line: string): string {
  return line.replace(/^(?=[.'])/, "\\&");
}

/** Escapes the characters that are special to roff, or that it prints as typographic ones. */
function text(words: string): string {
  return words
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll("'", "\\(aq")
    .replaceAll("~", "\\(ti")
    .replaceAll("^", "\\(ha");
}

function quote(words: string): string {
  return `"${words.replaceAll('"', "\\(dq")}"`;
}
