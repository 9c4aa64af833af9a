import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { systemCode, systemReason, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { shorten } from "../protocol/text.ts";
import { safeName } from "../video/naming.ts";

/** The folder in which an agent may save videos and read images. */
export type Folder = {
  /**
   * The output path for a video, from a path inside the folder; creates missing folders. Without a path it is
   * the folder itself. Throws `usage` for a path that is not clearly inside, and `output` if a folder cannot
   * be created.
   */
  outputPath(path: string | undefined): Promise<string>;
  /** An image for the client: a URL unchanged, or the real path of a file. Throws `usage` for a file outside the folder. */
  image(text: string): Promise<string>;
  /** The real path of a video. Throws `usage` for a file outside the folder. */
  video(text: string): Promise<string>;
};

/**
 * The folder of `--dir`, else the current folder. Desktop programs start servers in the root or home folder,
 * which the user did not choose: then each use throws `usage`. Throws `usage` at once if `--dir` is not a
 * folder.
 */
export async function openFolder(dir: string | undefined, { home, disk }: Pick<Io, "home" | "disk">): Promise<Folder> {
  const typedRoot = resolve(dir ?? ".");
  const root = await disk.realpath(dir ?? ".").catch((error) => {
    throw usage(`Cannot use --dir ${dir}: ${systemReason(error)}.`, "Give a folder that exists.");
  });
  if (!(await disk.lstat(root)).isDirectory())
    throw usage(`--dir ${dir} is not a folder.`, "Give a folder that exists.");
  const homeRoot = home === "" ? undefined : await disk.realpath(home).catch(() => undefined);
  const isChosenByUser = dir !== undefined || (dirname(root) !== root && root !== homeRoot);
  const checkUsable = () => {
    // The client would treat braces as placeholders.
    if (/[{}]/.test(root))
      throw usage(`The folder ${root} has braces in its name.`, "A person must choose another with --dir.");
    if (!isChosenByUser)
      throw usage(
        `The server was started in ${root}, which is not a folder for videos.`,
        "A person must start it with a folder: `vidgen mcp --dir <folder>`.",
      );
  };
  const findInside = async (text: string) => {
    checkUsable();
    const path = /^file:/i.test(text) ? readFileUrl(text) : text;
    const fullPath = path === undefined ? undefined : resolve(root, path);
    // Checked before the path is looked up: for a path on another machine, Windows would log in there.
    if (fullPath === undefined || !(isInside(root, fullPath) || isInside(typedRoot, fullPath))) return undefined;
    const real = await disk.realpath(fullPath).catch(() => undefined);
    return real !== undefined && isInside(root, real) ? real : undefined;
  };
  return {
    async outputPath(path = "") {
      checkUsable();
      // Without the slash at the end of a folder.
      const parts = path === "" ? [] : path.replace(/\/$/, "").split("/");
      if (!parts.every((part) => part === safeName(part)))
        throw usage(
          `"${path}" is not a path that can be saved to.`,
          `Give a path relative to ${root}, such as clips/fox.mp4: letters, digits, spaces and . _ -, and no part may begin or end with a dot or a space.`,
        );
      await checkLinks(root, parts, disk);
      const outputPath = join(root, ...parts);
      const folder = path.endsWith("/") ? outputPath : dirname(outputPath);
      if (parts.length > 0)
        await disk.mkdir(folder, { recursive: true }).catch((cause) => {
          throw new VidgenError("output", `Cannot create the folder ${folder}: ${systemReason(cause)}.`, { cause });
        });
      return outputPath;
    },
    async image(text) {
      if (/^(https?|data):/i.test(text)) return text;
      const real = await findInside(text);
      if (real !== undefined) return real;
      throw usage(`The image "${shorten(text, 200)}" is neither a URL nor a file inside ${root}.`);
    },
    async video(text) {
      const real = await findInside(text);
      if (real !== undefined) return real;
      throw usage(
        `"${shorten(text, 200)}" is neither a generation that was started here nor a file inside ${root}. Nothing was sent.`,
      );
    },
  };
}

/** Throws for symbolic links below the root, which could lead out of it. */
async function checkLinks(root: string, parts: string[], disk: Io["disk"]): Promise<void> {
  for (let i = 1; i <= parts.length; i++) {
    const path = join(root, ...parts.slice(0, i));
    const found = await disk.lstat(path).catch((error) => {
      if (systemCode(error) === "ENOENT") return undefined;
      throw usage(`Cannot use ${path}: ${systemReason(error)}.`);
    });
    if (!found) return;
    if (found.isSymbolicLink())
      throw usage(`${path} is a symbolic link, which may lead out of the folder.`, "Give another path.");
  }
}

function readFileUrl(url: string): string | undefined {
  try {
    return fileURLToPath(url);
  } catch {
    return undefined;
  }
}

function isInside(root: string, path: string): boolean {
  const fromRoot = relative(root, path);
  return fromRoot !== "" && !isAbsolute(fromRoot) && !/^\.\.($|[/\\])/.test(fromRoot);
}
