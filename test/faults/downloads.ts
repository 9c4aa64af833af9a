import { join } from "node:path";
import { ugliness, vidgen } from "./client.ts";
import { type Goal, portion } from "./goal.ts";
import { lastingMedia, passingMedia } from "./media-faults.ts";
import { createService } from "./server.ts";
import { unusualMedia, unusualVideos } from "./unusual-media.ts";
import { inFolder, side, videosIn } from "./work.ts";

/** Those that are about what happens when the rest of a video is asked for. */
const resumable = [
  "cut, then resumed",
  "another ETag after a cut",
  "If-Range ignored: the rest of another version",
  "the range ignored",
  "a range that starts too early",
  "a range that starts too late",
  "a range of another whole",
  "416 to a range",
  "no ETag, but a date that is old enough",
  "expired twice, with progress between",
  "a strong ETag, then none, then the first one again",
];

/** Goal 7: a file under the target's name is that generation's video, byte for byte. */
export const downloads: Goal = {
  number: 7,
  title: "download behaviours",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const { oracle, baseUrl } = service;
      const kinds = Object.entries({ ...passingMedia, ...unusualMedia, ...lastingMedia });
      const times = portion(20, share, 2);
      const commands = kinds.flatMap(([kind, media]) => Array.from({ length: times }, (_, i) => ({ kind, media, i })));
      const faults: string[] = [];
      const resumed = new Set<string>();
      const counts = { right: 0, wrong: 0, none: 0, resumed: 0 };
      await side(commands, 16, async ({ kind, media, i }) => {
        const prompt = `${kind} ${i}`;
        service.plan(prompt, { media });
        const generated = oracle.start({ prompt, model: "wan-2.5", attempt: prompt }, true);
        if (!generated) return;
        const place = join(folder, `${generated.id}/`);
        // Its own: on the fast clock the lock of a journal that many share is not waited for long enough.
        const home = join(folder, "homes", generated.id);
        const env = { VIDGEN_HOME: home, VIDGEN_BASE_URL: baseUrl, VIDGEN_API_KEY: "key" };
        const run = await vidgen(["wait", generated.id, "-o", place], env);
        const saved = videosIn(place);
        const ranges = service.rangesOf(prompt);
        if (ranges > 0) counts.resumed++;
        if (ranges > 0) resumed.add(kind);
        const unusual = unusualVideos[kind];
        const isWanted = (bytes: Buffer) =>
          unusual ? unusual.make(oracle.video(generated.id)).equals(bytes) : oracle.isVideo(generated.id, bytes);
        const isRight = saved.length === 1 && saved.every(isWanted);
        if (saved.length === 0) counts.none++;
        else counts[isRight ? "right" : "wrong"]++;
        if (saved.length > 0 && !isRight) faults.push(`${kind}: a wrong file, exit ${run.code}`);
        if ((run.code === 0) !== saved.length > 0) faults.push(`${kind}: exit ${run.code} with ${saved.length} files`);
        if (/looks damaged|is not an \.mp4/.test(run.stderr) !== (unusual?.isOdd ?? false))
          faults.push(`${kind}: warned wrongly: ${run.stderr}`);
        if (!(kind in lastingMedia) && !isRight) faults.push(`${kind}: not saved: ${run.stderr}`);
        if (kind in lastingMedia && run.code !== 9) faults.push(`${kind}: exit ${run.code}: ${run.stderr}`);
        if (run.code !== 0 && !run.stderr.includes(generated.id)) faults.push(`${kind}: no id: ${run.stderr}`);
        for (const ugly of ugliness(run)) faults.push(`${kind}: ${ugly}: ${run.stderr}`);
      });
      // What had come may be lost with the connection, now and then; over all seeds it must not be.
      for (const kind of times < 20 ? [] : resumable)
        if (!resumed.has(kind)) faults.push(`${kind}: the rest was never asked for, nothing was proven`);
      if (counts.resumed === 0) faults.push("nothing was gone on with, nothing was proven");
      await service.close();
      const passing = kinds.length - Object.keys(lastingMedia).length;
      return {
        figures:
          `${kinds.length} behaviours x ${times}: ${counts.wrong} wrong files, ` +
          `${counts.right} saved right (${counts.resumed} gone on with), ${counts.none} not saved`,
        target: `0 wrong files; the ${passing} that pass saved right: ${passing * times}`,
        faults,
      };
    }),
};
