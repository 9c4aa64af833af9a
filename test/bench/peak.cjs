// Loaded before the program: says in the file that VIDGEN_BENCH_PEAK names how much memory it took, in kB; a first half and a second.
const { writeFileSync } = require("node:fs");

const samples = [];
setInterval(() => samples.push(process.memoryUsage.rss()), 100).unref();
process.on("exit", () => {
  const half = samples.length >> 1;
  const [first, second] = [samples.slice(0, half), samples.slice(half)].map((part) => Math.max(0, ...part) / 1024);
  const peak = process.resourceUsage().maxRSS;
  writeFileSync(process.env.VIDGEN_BENCH_PEAK, JSON.stringify({ peak, first, second }));
});
