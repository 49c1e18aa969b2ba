import tensorflow as tf


class Scale(tf.Module):
    def __init__(self, by):
        super().__init__()
        self.by = tf.Variable([by] * 3)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def __call__(self, x):
        return {"y": x * self.by}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def total(self, x):
        return {"sum": tf.reduce_sum(x * self.by, axis=1)}


def build(folder):
    for version, by in ((1, 1.0), (2, 2.0)):
        model = Scale(by)
        tf.saved_model.save(
            model,
            str(folder / str(version)),
            signatures={"serving_default": model.__call__, "total": model.total},
        )
