import { Readable } from "node:stream";
import { McpServer, type ServerContext, type StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";
import packageJson from "../../package.json" with { type: "json" };
import { redactValue } from "../client/http/redaction.ts";
import { VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { plainText } from "../protocol/text.ts";
import { toolError } from "./errors.ts";
import { maxMessageBytes, readMessages } from "./messages.ts";
import type { Tool, ToolFile, ToolImage } from "./tool.ts";

type ServeOptions = {
  tools: Tool[];
  /** Aborted by `serve` at the end of the session. */
  ending: AbortController;
  redact(text: string): string;
  onNote(text: string): void;
};

const instructions =
  "Generates videos from prompts. generate_video costs credits and returns an id; get_video with wait_seconds: 50 reports when the video is ready, and save_video saves it. Repeated calls are not charged twice: a call that failed or timed out can be repeated with the same arguments.";

/**
 * Serves the Model Context Protocol on stdin and stdout until stdin ends or a signal aborts; then a start
 * request in flight gets up to 10 s for its id. Throws the reason of the signal.
 */
export async function serve(options: ServeOptions, io: Io): Promise<void> {
  const { ending, onNote } = options;
  /** The running calls. */
  const running = new Set<Promise<unknown>>();
  const refuse = (refusal: object) => void io.stdout.write(`${JSON.stringify(refusal)}\n`);
  const lines = Readable.from(readMessages(io.stdin, refuse));
  const transport = new StdioServerTransport(lines, io.stdout, { maxBufferSize: 2 * maxMessageBytes });
  const handle = serveStdio(() => createServer(running, options, io), {
    transport,
    onerror: (error) => onNote(`MCP: ${error.message}`),
  });
  await waitForEnd(transport, io.signal);
  ending.abort(
    io.signal.aborted ? io.signal.reason : new VidgenError("interrupted", "The agent has ended the session."),
  );
  while (running.size > 0) await Promise.allSettled(running);
  // The MCP library sends the last result slightly after its call has ended.
  await new Promise(setImmediate);
  await handle.close();
  io.signal.throwIfAborted();
}

function createServer(running: Set<Promise<unknown>>, { tools, ending, ...options }: ServeOptions, io: Io): McpServer {
  const capabilities = { tools: { listChanged: false } };
  // The tools change only with the program.
  const cacheHints = { "tools/list": { ttlMs: 3600_000 } };
  const server = new McpServer(
    { name: "vidgen", version: packageJson.version },
    { capabilities, instructions, cacheHints },
  );
  for (const tool of tools) {
    const { title, description, input, output } = tool;
    const { readOnly = false, destructive = false, openWorld = false } = tool.hints;
    const annotations = {
      title,
      readOnlyHint: readOnly,
      destructiveHint: destructive,
      // The same call again returns what it has started or changed.
      idempotentHint: true,
      openWorldHint: openWorld,
    };
    const [inputSchema, outputSchema] = [uncheckedSchema(input), uncheckedSchema(output)];
    const config = { title, description, inputSchema, outputSchema, annotations };
    server.registerTool(tool.name, config, (args, context) => {
      const calling = callTool(tool, args, {
        signal: AbortSignal.any([context.mcpReq.signal, ending.signal]),
        context,
      });
      running.add(calling);
      return calling.finally(() => running.delete(calling));
    });
  }
  return server;

  async function callTool(tool: Tool, args: unknown, { signal, context }: ToolCallOptions) {
    const attached: (ToolImage | ToolFile)[] = [];
    const attach = (attachment: ToolImage | ToolFile) => void attached.push(attachment);
    const onProgress = progressReporter(context, options.redact);
    try {
      const result = cleanValue(await tool.run(args, { signal, onProgress, attach }), options.redact);
      const attachments = attached.map((each) => (each.type === "image" ? each : cleanValue(each, options.redact)));
      const content = [{ type: "text" as const, text: JSON.stringify(result) }, ...attachments];
      return { content, structuredContent: result };
    } catch (thrown) {
      const error = cleanValue(toolError(thrown, io.unsettled.size > 0), options.redact);
      // No structured content, which clients of the SDK's version 1 compare with the schema of the result,
      // and then drop the error.
      return { content: [{ type: "text" as const, text: JSON.stringify(error) }], isError: true };
    }
  }
}

type ToolCallOptions = { signal: AbortSignal; context: ServerContext };

/**
 * The schema without validation by the MCP library, so that invalid arguments get vidgen's own error. Each
 * part has one type, because converters of some clients, such as Gemini's, reject a list of types; a number
 * may also be given as text.
 */
function uncheckedSchema(schema: z.ZodObject): StandardSchemaWithJSON<unknown, unknown> {
  const jsonSchema = {
    input: () => withSingleTypes(z.toJSONSchema(schema, { io: "input" })),
    output: () => withSingleTypes(z.toJSONSchema(schema)),
  };
  return { "~standard": { ...schema["~standard"], jsonSchema, validate: (value) => ({ value }) } };
}

function withSingleTypes(schema: object): Record<string, unknown> {
  return JSON.parse(JSON.stringify(schema), (_, part) => {
    if (!Array.isArray(part?.type)) return part;
    const { type, ...rest } = part;
    return type.includes("null")
      ? { ...rest, anyOf: type.map((each: string) => ({ type: each })) }
      : { ...rest, type: "number" };
  });
}

function progressReporter({ mcpReq }: ServerContext, redact: ServeOptions["redact"]) {
  const progressToken = mcpReq._meta?.progressToken;
  return (progress: number, message: string) => {
    if (progressToken === undefined) return;
    const params = { progressToken, progress, message: redact(plainText(message)) };
    // A failed notification means that the agent has gone.
    mcpReq.notify({ method: "notifications/progress", params }).catch(() => {});
  };
}

/** Removes keys, and control characters that could act on the agent's terminal. */
function cleanValue<Value extends object>(value: Value, redact: (text: string) => string): Value {
  return redactValue(value, (text) => redact(plainText(text)));
}

/** Resolves when the agent closes the connection, or the signal aborts. */
function waitForEnd(transport: StdioServerTransport, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const { onclose } = transport;
    transport.onclose = () => {
      onclose?.();
      resolve();
    };
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (signal.aborted) resolve();
  });
}
