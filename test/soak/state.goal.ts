import { prove } from "../faults/goal.ts";
import { crashes } from "./crashes.ts";
import { keys } from "./keys.ts";

// The goals that kill the service, in full.
for (const goal of [crashes, keys]) prove(goal, 1);
