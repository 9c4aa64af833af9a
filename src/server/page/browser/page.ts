import { rememberList } from "./address.ts";
import { updateTimes } from "./ages.ts";
import { listenForPictures } from "./backdrop.ts";
import {
  listenForChoice,
  listenForCopy,
  listenForHelp,
  listenForSend,
  listenForSignOut,
  listenForStar,
} from "./buttons.ts";
import { listenForCompare } from "./compare.ts";
import { listenForComposer } from "./composer.ts";
import { listenForConfirm } from "./confirm.ts";
import { listenForFilter, listenForMore } from "./gallery.ts";
import { listenForKeys } from "./keys.ts";
import { goLive } from "./live.ts";
import { listenForHover } from "./play.ts";
import { listenForSelection } from "./selection.ts";
import { clearOtherAccount } from "./tab.ts";
import { listenForTheme } from "./theme.ts";

document.documentElement.classList.toggle("can-copy", "clipboard" in navigator);
clearOtherAccount();
listenForFilter();
listenForMore();
listenForHover();
listenForPictures();
listenForKeys();
listenForCopy();
listenForSend();
listenForStar();
listenForSignOut();
listenForSelection();
listenForConfirm();
listenForChoice();
listenForCompare();
listenForComposer();
listenForTheme();
listenForHelp();
rememberList();
updateTimes();
goLive();
