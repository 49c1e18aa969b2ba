import tensorflow as tf

SIZE = 96


def view(image):
    image = tf.image.random_crop(image, (SIZE, SIZE, 3))
    image = tf.image.random_flip_left_right(image)
    return tf.clip_by_value(tf.image.random_brightness(image, 0.4), 0.0, 1.0)


def decode(path):
    image = tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
    return tf.image.resize(image, (SIZE + 32, SIZE + 32)) / 255.0


def pairs(pattern, batch_size):
    paths = tf.data.Dataset.list_files(pattern)
    images = paths.map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache()
    views = images.shuffle(10_000).map(lambda i: (view(i), view(i)))
    return views.batch(batch_size, drop_remainder=True)
