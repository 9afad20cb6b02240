"""The layers over the section: visibility, opacity, and the minimum likelihood of fault sticks."""

from collections.abc import Callable
from typing import Any, NamedTuple

from outcrop.app.components import WIDE, Layers, Message, guarded
from outcrop.app.plot import ALPHAS, OPACITY
from outcrop.app.viewer import Panel, Viewer
from outcrop.geometry.tracing import THRESHOLD


class Layer(NamedTuple):
    """A layer over the section, with its initial visibility and opacity."""

    name: str
    renderers: tuple[str, ...]  # names of the renderers in the figure
    opacity: float = 1.0
    shown: bool = True
    key: str = ""  # key on the keyboard that hides and shows the layer


STICKS, TOPS = "fault sticks", "tops"
LAYERS = (
    Layer("seismic", ("amplitudes",)),
    Layer(STICKS, ("rejected-outlines", "rejected-sticks", "stick-outlines", "sticks", "chosen-stick", "stick-points")),
    Layer("labels", ("labels",), OPACITY, key="O"),
    Layer("confidence", ("confidence-picture",), 0.8, shown=False),
    Layer("exemplars", ("exemplar-boxes", "exemplar-names")),
    Layer("strokes", ("painted",), 0.75, key="S"),
    Layer(TOPS, ("top-outlines", "tops", "base-outlines", "bases")),
)


class LayerBar(Panel):
    """The controls of the layers: visibility and opacity of each layer, and minimum likelihood of fault sticks.

    Parameters
    ----------
    viewer : Viewer

    Attributes
    ----------
    after_change : callable
        Called with the name of a layer that was hidden or shown, or whose minimum likelihood was changed.
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self.after_change: Callable[[str], object] = lambda name: None
        kept: dict[str, Any] = self.view.get("layers", {})
        self._state = {one.name: {"shown": one.shown, "opacity": one.opacity} for one in LAYERS}
        for name, chosen in kept.items():
            if name in self._state and isinstance(chosen, dict):
                self._state[name] |= chosen
        items = [one._asdict() | self._state[one.name] for one in LAYERS]
        for item in items:
            if item["name"] == STICKS:
                item["likelihood"] = self.likelihood
        self.bar = Layers(self._on_message, items=items, likelihoods=[THRESHOLD, 1.0], **WIDE)

    @property
    def likelihood(self) -> float:
        """Minimum likelihood, 0 to 1; fault sticks with a lower mean likelihood are hidden."""
        return float(self.view.get("likelihood", THRESHOLD))

    def shown(self, name: str) -> bool:
        """Return whether the layer `name` is shown."""
        return bool(self._state[name]["shown"])

    def apply(self) -> None:
        """Apply the stored visibility and opacity to the renderers of the layers."""
        plot = self.viewer.plot
        found = {one.name: one for one in plot.figure.renderers}
        for layer in LAYERS:
            state = self._state[layer.name]
            for renderer in (found[name] for name in layer.renderers):
                renderer.visible = state["shown"]
                given = {name: state["opacity"] for name in ALPHAS if name in renderer.glyph.properties()}
                renderer.glyph.update(**given)
        plot.bar.visible, plot.hatch.visible = self.shown("confidence"), self.shown("labels")
        for one in (plot.expert_image, plot.over):
            one.glyph.global_alpha = self._state["labels"]["opacity"]

    @guarded
    def _on_message(self, message: Message) -> None:
        """Store a change of a layer, made in the browser; call `after_change` unless only the opacity changed."""
        name = message.pop("name")
        if "likelihood" in message:
            self.view.keep(likelihood=float(message["likelihood"]))
        else:
            self._state[name] |= message
            self.view.keep(layers=self._state)
        if "opacity" not in message:
            self.after_change(name)
