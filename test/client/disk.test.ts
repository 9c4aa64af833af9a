import type { FileHandle } from "node:fs/promises";
import { expect, test } from "vitest";
import { createDisk } from "../../src/client/disk.ts";

const megabyte = 1024 * 1024;
const piece = new Uint8Array(megabyte);

/** A file whose disk is done with a sync when it is told to be. `most` bytes are written at a time. */
function createFile(most = megabyte) {
  const waiting: PromiseWithResolvers<void>[] = [];
  const written: [from: number, to: number][] = [];
  const file = {
    async write(_: Uint8Array, offset: number, length: number, at: number) {
      const bytesWritten = Math.min(length, most);
      written.push([at, at + bytesWritten]);
      expect(offset + length).toBe(megabyte);
      return { bytesWritten, buffer: piece };
    },
    datasync() {
      const { promise, resolve, reject } = deferred();
      waiting.push({ promise, resolve, reject });
      return promise;
    },
  };
  return { file: file as unknown as FileHandle, waiting, written };
}

type PromiseWithResolvers<Value> = { promise: Promise<Value>; resolve(): void; reject(error: Error): void };

function deferred(): PromiseWithResolvers<void> {
  let resolve = () => {};
  let reject = (_: Error) => {};
  const promise = new Promise<void>((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
}

async function writeMegabytes(disk: ReturnType<typeof createDisk>, count: number, from = 0) {
  for (let i = from; i < from + count; i++) await disk.write(piece, i * megabyte);
}

test("a piece that is written bit by bit is written whole, one bit after the other", async () => {
  const { file, written } = createFile(megabyte / 2);
  expect(await createDisk(file).write(piece, 7)).toBe(7 + megabyte);
  expect(written).toEqual([
    [7, 7 + megabyte / 2],
    [7 + megabyte / 2, 7 + megabyte],
  ]);
});

test("the disk is put to work every 64 MB, one sync at a time, and nothing that comes waits for it", async () => {
  const { file, waiting, written } = createFile();
  const disk = createDisk(file);
  await writeMegabytes(disk, 63);
  expect(waiting).toHaveLength(0);
  await writeMegabytes(disk, 1, 63);
  expect(waiting).toHaveLength(1);
  await writeMegabytes(disk, 68, 64);
  expect(waiting).toHaveLength(1);
  expect(written).toHaveLength(132);
  waiting[0]?.resolve();
  await disk.settle();
  await writeMegabytes(disk, 1, 132);
  expect(waiting).toHaveLength(2);
});

test("the file is let go of when the sync under way has ended", async () => {
  const { file, waiting } = createFile();
  const disk = createDisk(file);
  await writeMegabytes(disk, 64);
  let isSettled = false;
  const settling = disk.settle().then(() => {
    isSettled = true;
  });
  await new Promise(setImmediate);
  expect(isSettled).toBe(false);
  waiting[0]?.resolve();
  await settling;
});

test("what the disk has not kept is told by the next write, and by each settle", async () => {
  const { file, waiting, written } = createFile();
  const disk = createDisk(file);
  await writeMegabytes(disk, 64);
  const error = Object.assign(new Error("i/o error"), { code: "EIO" });
  waiting[0]?.reject(error);
  await new Promise(setImmediate);
  await expect(disk.write(piece, 64 * megabyte)).rejects.toBe(error);
  expect(written).toHaveLength(64);
  await expect(disk.settle()).rejects.toBe(error);
  await expect(disk.settle()).rejects.toBe(error);
});
