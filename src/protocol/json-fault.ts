/** The hint about a file that is not JSON. */
export const jsonHint = "JSON has no comments, and no comma before } or ].";

const jsonTokens =
  /[ \t\n\r]*(?:("[^"\\\p{Cc}]*(?:(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})|[\x7f-\x9f])[^"\\\p{Cc}]*)*")|([[{])|([\]}])|([,:])|(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-]))/uy;

/**
 * Where a text stops being JSON; `isCut` says that it only ends too early. The messages of `JSON.parse` would repeat a
 * part of the text, and often have no position.
 */
export function findJsonFault(text: string): { line: number; column: number; isCut: boolean } {
  const position = findFaultPosition(text);
  const before = text.slice(0, position).split("\n");
  return { line: before.length, column: (before.at(-1) ?? "").length + 1, isCut: text.slice(position).trim() === "" };
}

/** Such as "not JSON at line 2, column 2". */
export function describeJsonFault(text: string): string {
  const { line, column } = findJsonFault(text);
  return `not JSON at line ${line}, column ${column}`;
}

type Expected = "value" | "value or end" | "key" | "key or end" | "colon" | "comma or end" | "nothing";

function findFaultPosition(text: string): number {
  const brackets: string[] = [];
  let expected: Expected = "value";
  for (let at = 0; ; at = jsonTokens.lastIndex) {
    jsonTokens.lastIndex = at;
    const begin = at + (/^[ \t\n\r]*/.exec(text.slice(at))?.[0].length ?? 0);
    const [token, string, open, close, mark] = jsonTokens.exec(text) ?? [];
    if (token === undefined) return begin;
    const isInObject = brackets.at(-1) === "{";
    const afterValue: Expected = brackets.length === 0 ? "nothing" : "comma or end";
    if (close !== undefined) {
      const mayEnd = expected === "comma or end" || expected === (isInObject ? "key or end" : "value or end");
      if (!mayEnd || isInObject !== (close === "}")) return begin;
      brackets.pop();
      expected = brackets.length === 0 ? "nothing" : "comma or end";
    } else if (mark === ":") {
      if (expected !== "colon") return begin;
      expected = "value";
    } else if (mark === ",") {
      if (expected !== "comma or end") return begin;
      expected = isInObject ? "key" : "value";
    } else if (string !== undefined && (expected === "key" || expected === "key or end")) {
      expected = "colon";
    } else {
      if (expected !== "value" && expected !== "value or end") return begin;
      if (open !== undefined) brackets.push(open);
      expected = afterValue;
      if (open !== undefined) expected = open === "{" ? "key or end" : "value or end";
    }
  }
}
