import { prove } from "./goal.ts";
import { mcp } from "./mcp.ts";
import { ownWord } from "./own-word.ts";

// The calls of AI agents, and what stands between the client and the service, in full.
for (const goal of [mcp, ownWord]) prove(goal, 1);
