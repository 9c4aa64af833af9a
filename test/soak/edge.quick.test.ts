import { prove } from "../faults/goal.ts";
import { requests } from "./requests.ts";
import { zip } from "./zip.ts";

// The same code as `npm run soak`, with smaller numbers; what is slow on purpose is not quick.
for (const goal of [requests, zip]) prove(goal, 0.1);
