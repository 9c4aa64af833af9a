import { prove } from "../faults/goal.ts";
import { crashes } from "./crashes.ts";
import { keys } from "./keys.ts";
import { libraryKilled } from "./library-killed.ts";

// The goals that kill the service, or a program that uses it, in full.
for (const goal of [crashes, keys, libraryKilled]) prove(goal, 1);
