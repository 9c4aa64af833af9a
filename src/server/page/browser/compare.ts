import { frameLength } from "./frame-length.ts";

/** The maximum difference between the time of a video and the leading one, in seconds, before the video is moved. */
const maxDrift = 0.05;

/** Plays, seeks and steps all videos of a comparison together. */
export function listenForCompare(): void {
  const play = document.querySelector<HTMLButtonElement>("#play");
  const slider = document.querySelector<HTMLInputElement>("#position");
  if (!play || !slider) return;
  const time = document.querySelector("#time");
  const videos = () => [...document.querySelectorAll<HTMLVideoElement>(".compared video")];
  const lengthOf = ({ duration }: HTMLVideoElement) => (Number.isFinite(duration) ? duration : 0);
  /** The longest video leads. A shorter one stops at its end until the leader starts again. */
  const leaderOf = (all: readonly HTMLVideoElement[]) => all.toSorted((a, b) => lengthOf(b) - lengthOf(a))[0];
  let isPlaying = false;
  /** Where the videos were last moved to, in seconds. */
  let position = 0;

  const show = () => {
    const leader = leaderOf(videos());
    if (!leader) return;
    slider.max = String(lengthOf(leader));
    if (document.activeElement !== slider || isPlaying) slider.value = String(leader.currentTime);
    if (time) time.textContent = `${leader.currentTime.toFixed(2)} of ${lengthOf(leader).toFixed(2)} s`;
  };
  const synchronize = () => {
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
    requestAnimationFrame(synchronize);
  };
  const seek = (at: number) => {
    position = at;
    for (const video of videos()) move(video);
  };
  /** The length of a video is 0 until the browser has loaded it. */
  const move = (video: HTMLVideoElement) => {
    video.currentTime = Math.min(position, lengthOf(video));
  };
  const setPlaying = (isNowPlaying: boolean) => {
    isPlaying = isNowPlaying;
    play.textContent = isNowPlaying ? "Pause" : "Play";
    if (!isNowPlaying) for (const video of videos()) video.pause();
    if (isNowPlaying) synchronize();
    else seek(leaderOf(videos())?.currentTime ?? 0);
  };

  /**
   * Steps by the shortest frame, so that no video skips a frame and all stay at the same time. Seeks to the middle of a frame, because at the border
   * between two frames the browser may show either.
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
  const onLoaded = ({ target }: Event) => {
    if (!isPlaying && target instanceof HTMLVideoElement) move(target);
    show();
  };
  document.addEventListener("loadedmetadata", onLoaded, true);
  show();
}
