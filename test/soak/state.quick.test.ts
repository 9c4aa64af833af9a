import { prove } from "../faults/goal.ts";
import { crashes } from "./crashes.ts";
import { keys } from "./keys.ts";

// The same code as `npm run soak`, with smaller numbers.
for (const goal of [crashes, keys]) prove(goal, 0.03);
