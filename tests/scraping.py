"""What a Prometheus reads of metrics, by its own parser."""

from prometheus_client.parser import text_string_to_metric_families

from bus.metrics import exposition


def families(metrics):
    """What Prometheus knows of each metric, by name."""
    text = "".join(exposition(metrics))
    return {one.name: one for one in text_string_to_metric_families(text)}


def scraped(metrics):
    """The value of each sample, in order, by its name and labels: ``held{key="cpu",quota="a"}``, labels by name."""
    return {
        _named(sample.name, sample.labels): sample.value
        for family in families(metrics).values()
        for sample in family.samples
    }


def _named(name, labels):
    pairs = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
    return f"{name}{{{pairs}}}" if pairs else name
