"""Programs in plain NumPy, which tests compare with NumPy and `arrays` times."""

import numpy as np

RNG = np.random.default_rng(3)


def weights(*shape):
    return (RNG.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def layer_norm(x, gain, bias):
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Block:
    """A layer of a transformer."""

    def __init__(self, size, heads):
        self.heads = heads
        self.norms = [(1 + weights(size) / 9, weights(size) / 9) for _ in range(2)]
        self.qkv, self.out = weights(size, 3 * size), weights(size, size)
        self.up, self.down = weights(size, 4 * size), weights(4 * size, size)

    def __call__(self, x, mask=None):
        batch, tokens, size = x.shape
        parts = np.split(layer_norm(x, *self.norms[0]) @ self.qkv, 3, axis=-1)
        q, k, v = (
            p.reshape(batch, tokens, self.heads, size // self.heads).transpose(0, 2, 1, 3)
            for p in parts
        )
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(size // self.heads)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        mixed = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, size)
        x = x + mixed @ self.out
        return x + gelu(layer_norm(x, *self.norms[1]) @ self.up) @ self.down


GPT = [Block(48, 3) for _ in range(2)]
TABLE, POSITIONS = weights(61, 48), weights(32, 48)


def gpt(ids, table):
    tokens = ids.shape[1]
    x = table[ids] + POSITIONS[:tokens]
    for block in GPT:
        x = block(x, np.tril(np.ones((tokens, tokens), bool)))
    return x @ table.T


VIT = [Block(32, 4) for _ in range(2)]
PATCHES, CLASS, HEAD = weights(3 * 4 * 4, 32), weights(1, 1, 32), weights(32, 11)


def vit(images):
    batch, channels, height, width = images.shape
    x = images.reshape(batch, channels, height // 4, 4, width // 4, 4)
    x = x.transpose(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * 16) @ PATCHES
    x = np.concatenate([np.broadcast_to(CLASS, (batch, 1, 32)) + x[:, :1] * 0, x], axis=1)
    for block in VIT:
        x = block(x)
    return softmax(x[:, 0] @ HEAD)


def kalman(mean, covariance, measured):
    move = np.eye(4, dtype=np.float32) + np.eye(4, k=2, dtype=np.float32) * np.float32(0.1)
    see = np.eye(2, 4, dtype=np.float32)
    mean = move @ mean
    covariance = move @ covariance @ move.T + np.eye(4, dtype=np.float32) * 0.01
    gain = (
        covariance @ see.T @ np.linalg.inv(see @ covariance @ see.T + 0.5 * np.eye(2, dtype="f4"))
    )
    mean = mean + gain @ (measured - see @ mean)
    return {"mean": mean, "covariance": (np.eye(4, dtype=np.float32) - gain @ see) @ covariance}


def mel(frames):
    n = np.arange(64)
    turns = 2 * np.pi / 64 * np.outer(n, np.arange(33))
    window = np.hanning(64)[:, None]
    real, imaginary = (
        frames @ (window * part).astype(np.float32) for part in (np.cos(turns), -np.sin(turns))
    )
    filters = np.maximum(1 - np.abs(np.arange(33)[:, None] - np.linspace(2, 30, 13)) / 3, 0)
    return np.log(np.maximum((real**2 + imaginary**2) @ filters.astype(np.float32), 1e-6))
