import { again } from "./again.ts";
import { atOnce } from "./at-once.ts";
import { containers } from "./containers.ts";
import { prove } from "./goal.ts";
import { onePlace } from "./one-place.ts";

// The goals that run the same command again, or several at once, in full.
for (const goal of [again, atOnce, onePlace, containers]) prove(goal, 1);
