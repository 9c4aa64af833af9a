import * as z from "zod";
import { deleteGeneration, findDeletable } from "../client/generation/delete.ts";
import { entriesOf } from "../client/generation/service.ts";
import { cancelGeneration } from "../client/generation/status.ts";
import { usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { defineTool, idField, type Tool, type ToolOptions } from "./tool.ts";
import { openServiceOf } from "./videos.ts";

/** The tools that cancel and delete generations that agents started. */
export function changeTools(options: ToolOptions, io: Io): Tool[] {
  return [cancelTool(options, io), deleteTool(options, io)];
}

function cancelTool(options: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "cancel_video",
    title: "Cancel a video",
    description:
      "Stops a generation that is no longer wanted, if its service can, and reports the returned credits. Only for generations that generate_video or repeat_video started.",
    input: z.strictObject({ id: idField }),
    output: z.object({
      id: z.string(),
      status: z.string(),
      credits_returned: z.number().nullable().describe("null if the service does not state them."),
      note: z.string(),
    }),
    hints: { destructive: true, openWorld: true },
    async run({ id }, call) {
      const service = await openServiceOfAgent(id, "cancelled", options, io);
      const { generation, creditsReturned, wasCancelled } = await cancelGeneration(service, id, call);
      return {
        id,
        status: generation.status,
        credits_returned: creditsReturned ?? null,
        note: wasCancelled ? "It was already cancelled: nothing was changed." : "It was cancelled.",
      };
    },
  });
}

function deleteTool(options: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "delete_video",
    title: "Delete a video",
    description:
      "Deletes the video and the thumbnail of a generation that has ended at its service, if the service supports this. Deleting cannot be undone: a video that was never saved is lost, and a new one is charged. Saved files stay. Only for generations that generate_video or repeat_video started, and only if the user wants it.",
    input: z.strictObject({ id: idField }),
    output: z.object({
      id: z.string(),
      deleted: z.boolean(),
      was_there: z.boolean().describe("Whether the service still had the video."),
      file: z.string().nullable().describe("The saved file, which was left alone; null if the video was never saved."),
      note: z.string(),
    }),
    hints: { destructive: true, openWorld: true },
    async run({ id }, call) {
      const service = await openServiceOfAgent(id, "deleted", options, io);
      const deletable = await findDeletable(service, id, call);
      await deleteGeneration(service, deletable, call);
      const { file = null, isAtService: was_there } = deletable;
      const what = was_there ? "The video was deleted at the service" : "The service no longer had the video";
      const saved = file === null ? "It was never saved to a file." : "The saved file was left alone.";
      return { id, deleted: true, was_there, file, note: `${what}. ${saved}` };
    },
  });
}

/**
 * Opens the service of a generation that an agent started. Throws `not_found` or `usage` for any other.
 * `change` is for the messages.
 */
async function openServiceOfAgent(id: string, change: "cancelled" | "deleted", options: ToolOptions, io: Io) {
  const { session } = await openServiceOf(id, options, io);
  const entries = await entriesOf(session.service, id);
  if (entries.length === 0)
    throw new VidgenError(
      "not_found",
      `Generation ${id} was not started on this computer at this service. Nothing was ${change}.`,
      { id },
    );
  if (!entries.every(({ mcp }) => mcp))
    throw usage(
      `Generation ${id} was not started by an agent. Nothing was ${change}: a person can type \`vidgen ${change === "cancelled" ? "cancel" : "delete"} ${id}\`.`,
    );
  return session.service;
}
