"""Random changes of bytes, of JSON and of arrays: what damage and malice make of a file.

Everything random is drawn from a `random.Random`, so that a seed tells what was done.
"""

import copy
import json

import numpy as np

# ---- bytes: each changes a bytearray in place; `other` are the bytes of another file of the kind --------


def flip_bit(random, data, other):
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def change_bytes(random, data, other):
    for _ in range(random.randrange(1, 9)):
        data[random.randrange(len(data))] = random.randrange(256)


def insert(random, data, other):
    at = random.randrange(len(data) + 1)
    data[at:at] = random.randbytes(random.randrange(1, 17))


def delete(random, data, other):
    at = random.randrange(len(data))
    del data[at : at + random.randrange(1, 17)]


def truncate(random, data, other):
    del data[random.randrange(len(data)) :]


def splice(random, data, other):
    at, end = sorted(random.choices(range(len(data) + 1), k=2))
    data[at:end] = other[at:end] if random.random() < 0.5 else other[at:]


def swap_halves(random, data, other):
    at = random.randrange(len(data))
    data[:] = data[at:] + data[:at]


OF_BYTES = [flip_bit, change_bytes, insert, delete, truncate, splice, swap_halves]


# ---- JSON ------------------------------------------------------------------------------------------------

ODD_VALUES = [
    *(None, True, False, 0, 1, -1, 2, 3, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400),
    *(0.5, -0.5, 1e308, -1e308, 5e-324, 1e-300, float("nan"), float("inf"), float("-inf")),
    *("", "x", "a" * 5000, "\u202e", "\x00", "\ud800", "\x1b[31m", "../../etc/passwd"),
    *("<script>alert(1)</script>", "=HYPERLINK(1)", "gaussian", "linear", "polynomial", "product"),
    *([], [[]], {}, {"a": 1}, [1, 2, 3], [[1, 2], [3]], ["x", 1], [["x", 1]], [["x", 1, "text"]]),
]


def _places(value):
    """Yield every container and key of nested JSON."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value))
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def changed_json(random, value, odd_values=ODD_VALUES):
    """Return JSON with a few values changed, removed, repeated or added."""
    value = copy.deepcopy(value)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        places = list(_places(value))
        if not places:
            break
        _change_place(random, *random.choice(places), odd_values)
    return value


def _change_place(random, container, key, odd_values):
    old, dice = container[key], random.random()
    if dice < 0.12:
        del container[key]
    elif dice < 0.2 and isinstance(container, dict):
        container[random.choice(["x", "__class__", "name", "format_version", ""])] = random.choice(odd_values)
    elif dice < 0.28 and isinstance(container, list):
        container.extend(copy.deepcopy(container[:3]))
    elif dice < 0.45 and type(old) in (int, float):
        container[key] = _changed_number(random, old)
    elif dice < 0.53 and isinstance(old, str):
        container[key] = random.choice([old + "x", old.upper(), old[::-1], old * 3, old[:-1]])
    elif dice < 0.55:
        deep = []
        for _ in range(random.choice([20, 100])):
            deep = [deep]
        container[key] = deep
    else:
        container[key] = copy.deepcopy(random.choice(odd_values))


def _changed_number(random, old):
    changed = [old + 1, -old, old * 2, old / 3 if abs(old) < 1e300 else 0, 0]
    if abs(old) < 1e300:
        changed += [float(old), old * 1e6, old * (1 + 1e-9)]
    return random.choice(changed)


def as_json(value):
    """Return JSON text, in which numbers may be NaN and letters may be half of a pair."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


# ---- arrays ----------------------------------------------------------------------------------------------

_FLOATS = [
    np.nan,
    np.inf,
    -np.inf,
    -1.0,
    0.0,
    1.0,
    3.0,
    0.5,
    -0.0,
    1e-20,
    1e6,
    1e16,
    1e100,
    1e160,
    1e308,
    -1e308,
]
_FLOATS += [5e-324, -5e-324, 2.0**63]
_FACTORS = [2.0, -1.0, 0.5, 1e3, 1e-3, 1 + 1e-9, 1.01, 1e9]
_INTEGERS = [0, 1, -1, 2**63 - 1, -(2**63), 2**62]


def changed_arrays(random, arrays, more_names=()):
    """Return arrays by name with a few changed, removed or added."""
    arrays = {name: np.array(array) for name, array in arrays.items()}
    for _ in range(random.choice([1, 1, 2, 3])):
        if arrays:
            with np.errstate(all="ignore"):
                _change_array(random, arrays, random.choice(sorted(arrays)), more_names)
    return arrays


def _change_array(random, arrays, name, more_names):
    array, dice = arrays[name], random.random()
    if dice < 0.75 and array.size:
        _change_values(random, array.reshape(-1))
    elif dice < 0.78:
        del arrays[name]
    elif dice < 0.92:
        arrays[name] = random.choice(_RESHAPED)(random, array)
    elif dice < 0.96:
        arrays[random.choice(["x", "../x", "a" * 300, *more_names])] = array
    elif array.ndim and len(array) > 1:
        arrays[name] = array[::-1].copy()


def _change_values(random, flat):
    at = random.randrange(flat.size)
    old = flat[at].item()
    if flat.dtype.kind in "iu":
        new = random.choice([*_INTEGERS, old + 1, old - 1, old * 2])
        limits = np.iinfo(flat.dtype)
        new = min(max(new, int(limits.min)), int(limits.max)) if flat.dtype != np.uint8 else new % 256
    else:
        new = old * random.choice(_FACTORS) if random.random() < 0.4 else random.choice(_FLOATS)
    where = slice(None) if random.random() < 0.25 else at
    if random.random() < 0.1 and flat.dtype.kind == "f":
        flat *= random.choice(_FACTORS)
    else:
        flat[where] = new


def _of_no_size(random, array):
    shape = random.choice([(0,), (0, 0), (0, 2**40), (1,), (2**40, 0), (1, 1, 1, 0)])
    return np.zeros(shape, array.dtype)


_RESHAPED = [
    lambda random, array: array[:-1] if array.ndim and len(array) else array,
    lambda random, array: np.concatenate([array, array[:1]]) if array.ndim and len(array) else array,
    lambda random, array: array.reshape(-1),
    lambda random, array: np.ascontiguousarray(array.T),
    lambda random, array: array[None],
    lambda random, array: array.astype(random.choice(["<f4", "<f8", "<i8", "u1"])),
    _of_no_size,
]
