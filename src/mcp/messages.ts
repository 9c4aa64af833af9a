import { PROTOCOL_VERSION_META_KEY } from "@modelcontextprotocol/server";
import { isRecord, parseJson } from "../protocol/json.ts";

/** The maximum size of a message. */
export const maxMessageBytes = 10_000_000;

/**
 * The answer to an invalid message: `-32700` for invalid JSON, `-32600` for JSON that is not a JSON-RPC
 * message, and `-32022` for a request of another version of the protocol, which the MCP library checks only
 * in the first message.
 */
export type MessageError = {
  jsonrpc: "2.0";
  id?: string | number;
  error: { code: number; message: string; data?: { supported: readonly string[]; requested: string } };
};

/** The versions that a request may name in its `_meta`. */
const supported = ["2026-07-28"];

const newline = 0x0a;

/**
 * The messages of a stream, one per line, as bytes with a newline. The MCP library silently drops invalid lines, and
 * stops at a line that is too long: here each invalid line gets an answer through `refuse`, and reading continues.
 */
export async function* readMessages(
  stream: AsyncIterable<Uint8Array | string>,
  refuse: (refusal: MessageError) => void,
): AsyncGenerator<Buffer> {
  let parts: Uint8Array[] = [];
  let size = 0;
  const endLine = () => {
    const line = Buffer.concat(parts);
    const text = line.toString();
    const isTooLong = size > maxMessageBytes;
    parts = [];
    size = 0;
    const refusal = isTooLong
      ? messageError(-32600, `The message is longer than ${maxMessageBytes / 1_000_000} MB and was not read.`)
      : checkMessage(text);
    if (refusal) refuse(refusal);
    return refusal || text.trim() === "" ? undefined : line;
  };
  for await (const chunk of stream) {
    let rest = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
    for (let end = rest.indexOf(newline); end !== -1; end = rest.indexOf(newline)) {
      parts.push(rest.subarray(0, end + 1));
      size += end + 1;
      rest = rest.subarray(end + 1);
      const line = endLine();
      if (line) yield line;
    }
    size += rest.length;
    // A line that is too long is only counted.
    if (size > maxMessageBytes) parts = [];
    else if (rest.length > 0) parts.push(rest);
  }
}

function checkMessage(line: string): MessageError | undefined {
  if (line.trim() === "") return undefined;
  const message = parseJson(line);
  if (message === undefined) return messageError(-32700, "The line is not JSON.");
  const isMessage =
    isRecord(message) && message.jsonrpc === "2.0" && (typeof message.method === "string" || isResponse(message));
  if (
    isMessage &&
    (message.id === undefined || isId(message.id)) &&
    (message.params === undefined || isRecord(message.params))
  )
    return checkVersion(message);
  const id = isRecord(message) && isId(message.id) ? message.id : undefined;
  return messageError(-32600, "The line is not a JSON-RPC 2.0 message.", id);
}

function checkVersion({ id, params }: Record<string, unknown>): MessageError | undefined {
  const meta = isRecord(params) && isRecord(params._meta) ? params._meta : {};
  const requested = meta[PROTOCOL_VERSION_META_KEY];
  if (!isId(id) || typeof requested !== "string" || supported.includes(requested)) return undefined;
  const error = { code: -32022, message: `Unsupported protocol version: ${requested}`, data: { supported, requested } };
  return { jsonrpc: "2.0", id, error };
}

function isResponse(message: Record<string, unknown>): boolean {
  return isRecord(message.result) || isRecord(message.error);
}

function isId(id: unknown): id is string | number {
  return typeof id === "string" || Number.isInteger(id);
}

function messageError(code: number, message: string, id?: string | number): MessageError {
  return { jsonrpc: "2.0", ...(id === undefined ? {} : { id }), error: { code, message } };
}
