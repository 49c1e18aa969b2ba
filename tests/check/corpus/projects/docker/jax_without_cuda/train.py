import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (256, 256):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(2)(x)


def moons(key, count=100_000):
    first, second, third = jax.random.split(key, 3)
    angle = jax.random.uniform(first, (count,), maxval=jnp.pi)
    label = jax.random.bernoulli(second, shape=(count,)).astype(jnp.int32)
    upper = jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)
    lower = jnp.stack([1 - jnp.cos(angle), 0.5 - jnp.sin(angle)], 1)
    points = jnp.where(label[:, None] == 0, upper, lower)
    return points + 0.1 * jax.random.normal(third, points.shape), label


def main():
    key = jax.random.PRNGKey(0)
    x, y = moons(key)
    net = Net()
    params = net.init(key, x[:1])
    tx = optax.adam(1e-3)
    state = tx.init(params)

    @jax.jit
    def step(params, state):
        def loss_fn(params):
            return optax.softmax_cross_entropy_with_integer_labels(net.apply(params, x), y).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    for number in range(2000):
        params, state, loss = step(params, state)
    print(number, loss)


if __name__ == "__main__":
    main()
