import type { SimulatedDisk } from "./disk.ts";
import { epoch } from "./machine.ts";
import { work } from "./people.ts";
import type { Rules } from "./rules.ts";
import { serviceUrl } from "./service.ts";
import { videoOf } from "./video.ts";

type Scene = {
  disk: SimulatedDisk;
  journals: ReadonlySet<string>;
  rules: Rules;
  now(): number;
  /** It happens between the look at a file and its removal: no system call could remove that file and no other. */
  isBetween: boolean;
  /** The files that somebody has committed to git, by their paths. */
  committed: Map<string, Buffer>;
};

type Edit = (scene: Scene) => void;

/** What somebody, or another program, does to the files at any time. The keys are the words of the story. */
const editsOfVideos = {
  "another program replaces each video by a file of the same size": (scene) => {
    for (const path of namesOf(scene.disk, ".mp4")) replace(path, scene);
  },
  "another program replaces each partial file by a file of its own": (scene) => {
    for (const path of namesOf(scene.disk, ".part")) replace(path, scene);
  },
  "somebody deletes each video": ({ disk, rules }) => {
    for (const path of namesOf(disk, ".mp4")) {
      rules.onReplaced(path, undefined);
      disk.rm(path);
    }
  },
  "somebody renames each partial file": ({ disk, now }) => {
    for (const path of namesOf(disk, ".part")) disk.rename(path, `${path}.${now()}.old`, somebody);
  },
} satisfies Record<string, Edit>;

/**
 * And while nothing runs: an editor that writes back what it has read a while ago loses every line that was written meanwhile, and nobody can
 * help that.
 */
const editsOfLines = {
  "an editor puts a byte order mark before each journal": (scene) => {
    for (const path of scene.journals)
      rewrite(path, scene, (text) => (text.startsWith("\ufeff") ? text : `\ufeff${text}`));
  },
  "a newer version writes a line about the last attempt": (scene) => {
    for (const path of scene.journals)
      rewrite(path, scene, (text) => {
        const attempt = /.*"attempt":"([^"]+)"/s.exec(text)?.[1];
        const at = new Date(scene.now()).toISOString();
        return attempt && text.endsWith("\n") ? `${text}${JSON.stringify({ at, kind: "paused", attempt })}\n` : text;
      });
  },
  "a newer version has a word of its own for what was accepted": (scene) => {
    for (const path of scene.journals)
      rewrite(path, scene, (text) => text.replaceAll('"kind":"accepted"', '"kind":"taken"'));
  },
  "somebody deletes the results files": ({ disk, rules }) => {
    rules.onResultsDeleted();
    for (const path of namesOf(disk, ".results.jsonl")) disk.rm(path);
  },
  "somebody commits the results files to git": ({ disk, committed }) => {
    committed.clear();
    for (const path of namesOf(disk, ".results.jsonl"))
      committed.set(path, Buffer.from(disk.content(path) ?? Buffer.alloc(0)));
  },
  "somebody restores the results files from git": ({ disk, rules, committed }) => {
    rules.onResultsDeleted();
    for (const path of namesOf(disk, ".results.jsonl")) disk.rm(path);
    for (const [path, bytes] of committed) disk.replace(path, bytes);
  },
  "a newer version rewrites the results files": (scene) => {
    for (const path of namesOf(scene.disk, ".results.jsonl"))
      rewrite(path, scene, (text) => text.replaceAll(/"kind":"(?!batch)\w+"/g, '"kind":"paused"'));
  },
} satisfies Record<string, Edit>;

export const editNames = Object.keys({ ...editsOfVideos, ...editsOfLines });
/** Those that happen while a command runs. */
export const videoEditNames = Object.keys(editsOfVideos);

/** More than a start reads of a journal at once. Apart from the others, since such a story takes long. */
export const longEditName = "somebody starts others, whose long prompts make a long journal";

const edits: Readonly<Record<string, Edit>> = {
  ...editsOfVideos,
  ...editsOfLines,
  [longEditName]: (scene) => {
    const at = new Date(epoch + scene.now()).toISOString();
    const lines = Array.from({ length: 12 }, (_, index) => {
      const attempt = `other-${index}`;
      const request = { prompt: "x".repeat(100_000), model: "wan-2.5" };
      const intent = { at, kind: "intent", attempt, base_url: serviceUrl, account: "another", request };
      return `${JSON.stringify(intent)}\n${JSON.stringify({ at, kind: "unsent", attempt, reason: "no network" })}\n`;
    });
    for (const path of scene.journals) rewrite(path, scene, (text) => text + lines.join(""));
  },
};

export function edit(name: string, scene: Scene): void {
  edits[name]?.(scene);
}

const somebody = { name: "somebody", computer: { name: "elsewhere" } };

function namesOf(disk: SimulatedDisk, end: string): string[] {
  return [...disk.files().keys()].filter((path) => path.startsWith(`${work}/`) && path.endsWith(end));
}

function replace(path: string, { disk, rules, isBetween }: Scene): void {
  const bytes = videoOf(`another-program-${disk.files().size}-${path.length}`, 9);
  rules.onReplaced(path, isBetween && path.endsWith(".part") ? undefined : bytes);
  disk.replace(path, bytes);
}

function rewrite(path: string, { disk }: Scene, change: (text: string) => string): void {
  const text = disk.content(path)?.toString("utf8");
  if (text) disk.replace(path, Buffer.from(change(text)));
}
