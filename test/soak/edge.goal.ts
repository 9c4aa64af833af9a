import { prove } from "../faults/goal.ts";
import { requests } from "./requests.ts";

// The goals at the service's edge, in full.
for (const goal of [requests]) prove(goal, 1);
