// For `node --import`: the clock of a program goes 50 times faster, its sleeps and limits with it.
const speed = 50;
const { setTimeout } = globalThis;
const now = performance.now.bind(performance);
globalThis.setTimeout = (work, ms = 0, ...given) => setTimeout(work, ms / speed, ...given);
performance.now = () => now() * speed;
