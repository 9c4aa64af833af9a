import { prove } from "./goal.ts";
import { mcp } from "./mcp.ts";

// The calls of AI agents, in full.
prove(mcp, 1);
