/** How long the pointer must stay on a card before its video plays. */
const hoverMs = 120;

let playing: { stage: HTMLElement; video: HTMLVideoElement } | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Plays the video of the card under the pointer or with the focus. */
export function listenForHover(): void {
  const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
  const enter = ({ target }: Event) => {
    const card = target instanceof Element ? target.closest(".card") : null;
    const stage = card?.querySelector<HTMLElement>("[data-video]") ?? undefined;
    if (stage === playing?.stage) return;
    stop();
    if (stage && !reducedMotion.matches) timer = setTimeout(() => play(stage), hoverMs);
  };
  document.addEventListener("pointerover", enter);
  document.addEventListener("focusin", enter);
  document.documentElement.addEventListener("pointerleave", stop);
}

function play(stage: HTMLElement): void {
  const video = document.createElement("video");
  Object.assign(video, { src: stage.dataset.video, muted: true, loop: true, playsInline: true });
  video.dataset.added = "";
  stage.append(video);
  playing = { stage, video };
  // Rejects if the pointer leaves before the video has loaded.
  video.play().catch(() => {});
}

function stop(): void {
  clearTimeout(timer);
  playing?.video.remove();
  playing = undefined;
}
