import { resolve } from "node:path";
import { findSaved } from "../client/target.ts";
import type { Session } from "./context.ts";
import type { Output } from "./terminal/output.ts";

export type SavedOptions = {
  /** `-o` as it was typed. */
  place: string | undefined;
  overwrite?: boolean | undefined;
};

export type Saved = {
  file: string;
  /** Whether the journal knows it as the video of this very generation. */
  isWrittenDown: boolean;
};

/** The whole video of a generation where `-o` would save it; `undefined` when there is none, or it is to be replaced. */
export async function findSavedVideo(id: string, session: Session, options: SavedOptions): Promise<Saved | undefined> {
  const { place, overwrite } = options;
  const { request, file: known } = (await session.find(id)) ?? {};
  if (place === undefined || place === "-" || overwrite || !request) return undefined;
  const filled = await session.placeOf(place, id);
  const naming = { id, prompt: request.prompt, model: request.model };
  const file = filled === undefined ? undefined : await findSaved(filled, naming);
  return file === undefined ? undefined : { file, isWrittenDown: resolve(file) === known };
}

/** As `findSavedVideo`, for what the journal knows alone; a person is told. */
export async function findAlreadySaved(
  id: string,
  session: Session,
  options: SavedOptions & { output: Output },
): Promise<string | undefined> {
  const saved = await findSavedVideo(id, session, options);
  if (!saved?.isWrittenDown) return undefined;
  options.output.note(`${id} is already saved.`);
  return saved.file;
}
