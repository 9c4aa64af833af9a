import { updateAges } from "./ages.ts";
import { listenForCopy, listenForSend } from "./buttons.ts";
import { listenForFilter, listenForOlder } from "./gallery.ts";
import { listenForKeys } from "./keys.ts";
import { goLive } from "./live.ts";
import { listenForHover } from "./play.ts";
import { remember } from "./view.ts";

remember(document);
listenForFilter();
listenForOlder();
listenForHover();
listenForKeys();
listenForCopy();
listenForSend();
updateAges();
goLive();
