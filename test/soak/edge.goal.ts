import { prove } from "../faults/goal.ts";
import { requests } from "./requests.ts";
import { slow } from "./slow.ts";
import { zip } from "./zip.ts";

// The goals at the service's edge, in full.
for (const goal of [requests, slow, zip]) prove(goal, 1);
