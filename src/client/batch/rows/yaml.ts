import { usage } from "../../../errors.ts";
import type { Faults } from "./faults.ts";

/** Parsing needs about 50 times as much memory as the file has bytes. */
const maxMegabytes = 16;

/** The maximum number of aliases in a row, counting those inside of aliases: otherwise a few lines could expand to gigabytes. */
const maxAliasCount = 100;

/** The maximum depth of a row: `yaml` calls itself for each level, and Node ends without an error once the stack is full. */
const maxDepth = 100;

/**
 * The rows of a YAML file, which must be a list of maps, with the lines at which they begin. Invalid YAML
 * becomes a fault. Throws `usage` for a file that is too large or nested too deeply.
 */
export async function readYaml(bytes: Buffer, faults: Faults): Promise<{ line: number; value: unknown }[]> {
  if (bytes.length > maxMegabytes * 1_000_000)
    throw usage(`A YAML file may have ${maxMegabytes} MB at most. Nothing was sent.`, "A .jsonl file may be larger.");
  const { isAlias, isMap, isPair, isScalar, isSeq, Lexer, LineCounter, parseDocument, Parser, visit } = await import(
    "yaml"
  );
  const text = bytes.toString("utf8");
  const lines = new LineCounter();
  const lineOf = (position = 0) => lines.linePos(position).line;
  const parser = new Parser();
  for (const lexeme of new Lexer().lex(text)) {
    // Iterates only to run the parser, which keeps its levels in a list and so cannot overflow the stack itself.
    for (const _ of parser.next(lexeme));
    if (parser.stack.length > maxDepth) throw usage("The YAML file is nested too deeply. Nothing was sent.");
  }
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, merge: true });
  const problems = [...document.errors, ...document.warnings];
  for (const { message, pos } of problems) faults.add(message.replace(/\.?$/, ""), { line: lineOf(pos[0]) });
  const { contents } = document;
  if (problems.length > 0 || contents === null) return [];
  if (!isSeq(contents)) {
    faults.add("must be a list of rows: each begins with a dash, such as - prompt: a red fox", {
      line: lineOf(contents.range?.[0]),
    });
    return [];
  }
  visit(document, {
    Alias(_, alias, path) {
      const aliasTarget = alias.resolve(document);
      if (!aliasTarget)
        faults.add(`*${alias.source} has no anchor &${alias.source} before it`, { line: lineOf(alias.range?.[0]) });
      if (aliasTarget && path.includes(aliasTarget))
        faults.add(`*${alias.source} is inside of the value of &${alias.source}`, { line: lineOf(alias.range?.[0]) });
    },
    Scalar(_, scalar, path) {
      const isSetting = path.some(
        (node) => isPair(node) && isScalar(node.key) && /^set(\.|$)/i.test(String(node.key.value)),
      );
      // Keeps an id such as 007 or 1.10 as typed.
      if (typeof scalar.value === "number" && !isSetting && scalar.source !== undefined) scalar.value = scalar.source;
    },
  });
  if (!faults.isEmpty()) return [];
  return contents.items.map((item) => {
    const node = isAlias(item) ? item.resolve(document) : item;
    const line = lineOf((item as { range?: [number, number, number] }).range?.[0]);
    const read = () => (isMap(node) ? node.toJS(document, { maxAliasCount }) : undefined);
    return { line, value: toValue(read, { line, faults }) };
  });
}

/** `yaml` throws a ReferenceError for too many aliases. */
function toValue(read: () => unknown, { line, faults }: { line: number; faults: Faults }): unknown {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    faults.add(`has more than ${maxAliasCount} aliases, counting those inside of others`, { line });
    return {};
  }
}
