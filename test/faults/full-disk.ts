import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import type { Env } from "./client.ts";
import { ugliness } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { createService } from "./server.ts";
import { bin, spawnProcess } from "./spawned.ts";
import { inFolder, side } from "./work.ts";

const page = 4096;

/** A disk that is full after so many pages, where the command runs twice: as it is, and with room made. `$1` pages, `$2` copies. */
const onTmpfs = `
mount -t tmpfs -o size=$(($1 * ${page})) tmpfs disk || exit 99
"$3" "$4" wait "$5" -o disk/fox.mp4; echo "first $?"
cp disk/fox.mp4 "$2/first.mp4" 2>/dev/null
ls -A disk | tr '\\n' ' ' >&2
mount -o remount,size=8m disk
"$3" "$4" wait "$5" -o disk/fox.mp4; echo "second $?"
cp disk/fox.mp4 "$2/second.mp4" 2>/dev/null
exit 0`;

/** Where nothing can be mounted: no file may become longer than so many pages. */
const withLimit = `
mkdir disk
prlimit --fsize=$(($1 * ${page})) "$3" "$4" wait "$5" -o disk/fox.mp4; echo "first $?"
cp disk/fox.mp4 "$2/first.mp4" 2>/dev/null
"$3" "$4" wait "$5" -o disk/fox.mp4; echo "second $?"
cp disk/fox.mp4 "$2/second.mp4" 2>/dev/null
exit 0`;

/** The journal is where there is no room at all. */
const fullHome = `
mkdir full && mount -t tmpfs -o size=${page} tmpfs full && head -c ${page} /dev/zero > full/ballast
VIDGEN_HOME="$PWD/full" "$1" "$2" generate "$3" --no-wait; echo "first $?"`;

/** Goal 8: a disk that is full leaves no cut file under the target's name, and says how to go on. */
export const fullDisk: Goal = {
  number: 8,
  title: "no space left at seeded offsets",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const count = portion(50, share, 5);
      const service = await createService(random, (count + 2) * page);
      const { oracle } = service;
      const env = { VIDGEN_HOME: join(folder, "home"), VIDGEN_BASE_URL: service.baseUrl, VIDGEN_API_KEY: "key" };
      const canMount = (await shell("mount -t tmpfs tmpfs .", [], env, folder, true)).code === 0;
      const faults: string[] = [];
      const codes: string[] = [];
      const counts = { cut: 0, recovered: 0 };
      await side([...Array(count).keys()], 3, async (i) => {
        const own = join(folder, `run-${i}`);
        mkdirSync(join(own, canMount ? "disk" : ""), { recursive: true });
        const generated = oracle.start({ prompt: `fox ${i}`, model: "wan-2.5", attempt: `${i}` }, true);
        const words = [String(i + 1), own, process.execPath, bin, generated?.id ?? ""];
        const run = await shell(canMount ? onTmpfs : withLimit, words, env, own, canMount);
        const say = (what: string) => faults.push(`${i + 1} pages: ${what}: ${run.stdout} ${run.stderr}`);
        const isWhole = (name: string) => oracle.isVideo(generated?.id ?? "", readFileSync(join(own, name)));
        codes.push(/first (\d+)/.exec(run.stdout)?.[1] ?? "none");
        if (codes.at(-1) !== "9") say("not exit 9");
        if (existsSync(join(own, "first.mp4"))) {
          counts.cut++;
          say("a file under the target's name");
        }
        if (!run.stderr.includes(`vidgen wait ${generated?.id} -o disk/fox.mp4`))
          say("the command to go on is missing");
        if (canMount && !run.stderr.includes("the disk is full")) say("does not say that the disk is full");
        for (const ugly of ugliness(run)) say(ugly);
        if (existsSync(join(own, "second.mp4")) && isWhole("second.mp4")) counts.recovered++;
        else say("not saved with room made");
      });
      if (canMount) await checkFullHome(folder, env, faults);
      const paid = oracle.startsOf("unpaid fox").length;
      if (paid > 0) faults.push("a start with a journal that cannot be written");
      await service.close();
      return {
        figures:
          `${count} offsets ${canMount ? "on a small tmpfs" : "by a limit on the size of files"}: ${counts.cut} cut targets, ` +
          `${tally(codes.map((code) => `exit ${code}`))}, ${counts.recovered} saved with room made; ` +
          `journal full: ${canMount ? `${paid} starts` : "not tried"}`,
        target: "0 cut targets, every one exit 9",
        faults,
      };
    }),
};

async function checkFullHome(folder: string, env: Env, faults: string[]): Promise<void> {
  const run = await shell(fullHome, [process.execPath, bin, "unpaid fox"], env, folder, true);
  if (!run.stdout.includes("first 9")) faults.push(`journal full: ${run.stdout} ${run.stderr}`);
}

/** In a namespace of its own what is mounted goes with the shell. */
function shell(script: string, words: string[], env: Env, cwd: string, isApart: boolean) {
  const line = ["sh", "-c", script, "sh", ...words];
  const [command = "", ...argv] = isApart ? ["unshare", "--user", "--map-root-user", "--mount", ...line] : line;
  return spawnProcess(command, argv, env, cwd).ended;
}
