import { extname, resolve } from "node:path";
import type { Disk } from "../../io.ts";
import { record, type Service } from "../generation/service.ts";
import { type Content, hasContent } from "../ledger/content.ts";
import type { Entry } from "../ledger/history.ts";
import { kindOf, linkNew, outputError, renameNew } from "../save/files.ts";
import { hasInfo } from "../save/info.ts";
import { infoPath } from "../save/output-path.ts";

/** The earlier video of a row that is made again, and the free path to which its file is renamed. */
export type KeptVideo = { id: string; content: Content; from: string; to: string };

/**
 * Where to keep the video of an earlier attempt; `undefined` if the file has other content. `takenPaths` are
 * the output paths of the rows.
 */
export async function findKeptVideo(
  file: string,
  { id, content }: Pick<Entry, "id" | "content">,
  { takenPaths, disk }: { takenPaths: ReadonlySet<string>; disk: Disk },
): Promise<KeptVideo | undefined> {
  if (id === undefined || content === undefined || !(await hasContent(file, content, disk))) return undefined;
  const extension = extname(file);
  const name = file.slice(0, file.length - extension.length);
  for (let n = 1; ; n++) {
    const to = `${name}.take-${n}${extension}`;
    if (takenPaths.has(to)) continue;
    // A killed process may have created the second name already.
    if ((await kindOf(to, disk)) === "none" || (await hasContent(to, content, disk)))
      return { id, content, from: file, to };
  }
}

/**
 * Renames the earlier video of a row, and its info file, before the row is started again. Does nothing the
 * second time. Throws `output`.
 */
export async function keepVideo({ id, content, from, to }: KeptVideo, service: Service): Promise<void> {
  const { disk } = service.io;
  try {
    if (!(await hasContent(from, content, disk))) return;
    // Recorded first: if the process is killed before the rename, the next run repeats both.
    await record(service, { kind: "delivered", id, file: resolve(to), ...content });
    if (await hasInfo(from, id, disk)) await renameNew(infoPath(from), infoPath(to), disk);
    const isLinked = (await hasContent(to, content, disk)) || (await linkNew(from, to, disk));
    // If this process was suspended, another one may have taken over, and have saved the new video here.
    if (!(await hasContent(from, content, disk))) return;
    await (isLinked ? disk.rm(from) : disk.rename(from, to));
  } catch (error) {
    throw outputError(error, to);
  }
}
