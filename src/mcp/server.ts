import { Readable } from "node:stream";
import { McpServer, type ServerContext, type StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import packageJson from "../../package.json" with { type: "json" };
import { redactValue } from "../client/http/redaction.ts";
import { VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { plainText } from "../protocol/text.ts";
import { toolError } from "./errors.ts";
import { maxMessageBytes, readMessages } from "./messages.ts";
import type { Tool, ToolImage } from "./tool.ts";

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
 * Serves the Model Context Protocol on stdin and stdout until stdin ends or a signal aborts; then a start request in flight gets up to
 * 10 s for its id. Throws the reason of the signal.
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
  const server = new McpServer({ name: "vidgen", version: packageJson.version }, { capabilities, instructions });
  for (const tool of tools) {
    const { title, description, input, output } = tool;
    const { readOnly = false, destructive = false, idempotent = false, openWorld = false } = tool.hints;
    const annotations = {
      title,
      readOnlyHint: readOnly,
      destructiveHint: destructive,
      idempotentHint: idempotent,
      openWorldHint: openWorld,
    };
    const config = { title, description, inputSchema: uncheckedSchema(input), outputSchema: output, annotations };
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
    const images: ToolImage[] = [];
    const attach = (image: ToolImage) => void images.push(image);
    const onProgress = progressReporter(context, options.redact);
    try {
      const result = cleanValue(await tool.run(args, { signal, onProgress, attach }), options.redact);
      const content = [
        { type: "text" as const, text: JSON.stringify(result) },
        ...images.map((image) => ({ type: "image" as const, ...image })),
      ];
      return { content, structuredContent: result };
    } catch (thrown) {
      const error = cleanValue(toolError(thrown, io.unsettled.size > 0), options.redact);
      return { content: [{ type: "text" as const, text: JSON.stringify(error) }], isError: true };
    }
  }
}

type ToolCallOptions = { signal: AbortSignal; context: ServerContext };

/** The schema without validation by the MCP library, so that invalid arguments get vidgen's own error. */
function uncheckedSchema(schema: Tool["input"]): StandardSchemaWithJSON<unknown, unknown> {
  return { "~standard": { ...schema["~standard"], validate: (value) => ({ value }) } };
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
