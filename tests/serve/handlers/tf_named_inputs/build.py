import tensorflow as tf


class Join(tf.Module):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="word"),
            tf.TensorSpec([None], tf.int32, name="times"),
        ]
    )
    def __call__(self, word, times):
        return {"length": tf.strings.length(word) * times, "upper": tf.strings.upper(word)}


def build(folder):
    model = Join()
    tf.saved_model.save(model, str(folder / "export" / "Servo" / "7"), signatures=model.__call__)
