import { open } from "node:fs/promises";

/** Resolves when a file's content is on the disk. */
export async function syncFile(file: string): Promise<void> {
  const handle = await open(file, "r+");
  await handle.sync().finally(() => handle.close());
}

/** Resolves when the names in a folder are on the disk. Windows cannot open a folder. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder).catch(() => undefined);
  await handle?.sync().catch(() => {});
  await handle?.close();
}
