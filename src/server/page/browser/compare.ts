import { frameLength } from "./frame-length.ts";

/** How far a video may be from the leading one, in seconds, before it is moved to the time of that one. */
const maxDrift = 0.05;

/** One slider and one set of buttons control all videos of a comparison. */
export function listenForCompare(): void {
  const play = document.querySelector<HTMLButtonElement>("#play");
  const slider = document.querySelector<HTMLInputElement>("#position");
  if (!play || !slider) return;
  const time = document.querySelector("#time");
  const videos = () => [...document.querySelectorAll<HTMLVideoElement>(".compared video")];
  const lengthOf = ({ duration }: HTMLVideoElement) => (Number.isFinite(duration) ? duration : 0);
  /** The longest video leads. The others stop at their ends until it restarts. */
  const leaderOf = (all: readonly HTMLVideoElement[]) => all.toSorted((a, b) => lengthOf(b) - lengthOf(a))[0];
  let isPlaying = false;

  const show = () => {
    const leader = leaderOf(videos());
    if (!leader) return;
    slider.max = String(lengthOf(leader));
    if (document.activeElement !== slider || isPlaying) slider.value = String(leader.currentTime);
    if (time) time.textContent = `${leader.currentTime.toFixed(2)} of ${lengthOf(leader).toFixed(2)} s`;
  };
  const keepInStep = () => {
    if (!isPlaying) return;
    const all = videos();
    const leader = leaderOf(all);
    if (leader?.ended) seek(0);
    for (const video of all) {
      const at = Math.min(leader?.currentTime ?? 0, lengthOf(video));
      if (Math.abs(video.currentTime - at) > maxDrift) video.currentTime = at;
      if (video.paused && at < lengthOf(video)) video.play().catch(() => {});
    }
    show();
    requestAnimationFrame(keepInStep);
  };
  const seek = (at: number) => {
    for (const video of videos()) video.currentTime = Math.min(at, lengthOf(video));
  };
  const setPlaying = (isNow: boolean) => {
    isPlaying = isNow;
    play.textContent = isNow ? "Pause" : "Play";
    if (!isNow) for (const video of videos()) video.pause();
    if (isNow) keepInStep();
    else seek(leaderOf(videos())?.currentTime ?? 0);
  };

  /**
   * Steps by the shortest frame, so that no video skips a frame while all stay at the same time. Seeks to the middle of a frame: at its edge, the
   * browser may show either neighbour.
   */
  const stepFrames = async (by: number) => {
    const all = videos();
    const at = leaderOf(all)?.currentTime ?? 0;
    const lengths = await Promise.all(all.map(frameLength));
    const frame = Math.min(...lengths.filter((each) => each !== undefined));
    const end = Math.max(...all.map(lengthOf));
    const to = Number.isFinite(frame) ? (Math.floor(at / frame + 0.01) + by + 0.5) * frame : at;
    seek(Math.max(0, Math.min(to, end)));
    show();
  };
  let stepped: Promise<void> = Promise.resolve();

  play.addEventListener("click", () => setPlaying(!isPlaying));
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-frames]"))
    button.addEventListener("click", () => {
      if (isPlaying) setPlaying(false);
      stepped = stepped.then(() => stepFrames(Number(button.dataset.frames)));
    });
  slider.addEventListener("input", () => {
    seek(Number(slider.value));
    show();
  });
  document.addEventListener("loadedmetadata", show, true);
  show();
}
