import { isRecord, parseJson, readStarted, type Started, saysNo } from "./schema.ts";

/**
 * Reads a start reply whose body was cut; `undefined` unless the id inside its `data` arrived whole. An id anywhere else does not count: a
 * prompt that is echoed may hold anything.
 */
export function salvageStarted(text: string): Started | undefined {
  const json = parseJson(repairJson(text));
  if (!isRecord(json) || !isRecord(json.data) || saysNo(json)) return undefined;
  return readStarted({ success: true, data: json.data, remaining_credits: json.remaining_credits });
}

/** The beginning of a JSON text, cut back to its last whole string or bracket and closed there. */
function repairJson(text: string): string {
  let open: Open | undefined;
  let isValue = false;
  let whole: { end: number; open: Open | undefined } = { end: 0, open };
  for (let i = 0; i < text.length; i++) {
    const letter = text[i] ?? "";
    if (letter === '"') {
      i = endOfString(text, i);
      if (i === -1) break;
      if (isValue) whole = { end: i + 1, open };
    } else if (letter === "{" || letter === "[") open = { closing: letter === "{" ? "}" : "]", outer: open };
    else if (letter === "}" || letter === "]") {
      open = open?.outer;
      whole = { end: i + 1, open };
    }
    if (letter === ":") isValue = true;
    else if (/[,{"]/.test(letter)) isValue = false;
  }
  return text.slice(0, whole.end) + close(whole.open);
}

/** An open bracket, by the one that closes it, and the open brackets around it. */
type Open = { closing: string; outer: Open | undefined };

function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === '"') return i;
  }
  return -1;
}

function close(innermost: Open | undefined): string {
  const closing: string[] = [];
  for (let open = innermost; open; open = open.outer) closing.push(open.closing);
  return closing.join("");
}
