"""XXH3 with 64 bits and seed 0, in plain Python: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md"""

import struct

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
P32 = (2654435761, 2246822519, 3266489917)
P64 = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261)
MASK = (1 << 64) - 1


def u64(b, at):
    return struct.unpack_from("<Q", b, at)[0]


def u32(b, at):
    return struct.unpack_from("<I", b, at)[0]


def fold(a, b):
    """The product of 128 bits, its halves combined."""
    p = a * b
    return (p & MASK) ^ (p >> 64)


def mix(data, at, key):
    return fold(u64(data, at) ^ u64(SECRET, key), u64(data, at + 8) ^ u64(SECRET, key + 8))


def avalanche(h):
    h &= MASK
    h = (h ^ h >> 37) * 0x165667919E3779F9 & MASK
    return h ^ h >> 32


def avalanche_of_xxh64(h):
    h = (h ^ h >> 33) * P64[1] & MASK
    h = (h ^ h >> 29) * P64[2] & MASK
    return h ^ h >> 32


def rotate(h, n):
    return (h << n | h >> 64 - n) & MASK


def xxh3_64(data):
    """The hash of some bytes."""
    n = len(data)
    if n > 240:
        return hash_long(data)
    if n > 128:
        h = avalanche(n * P64[0] + sum(mix(data, 16 * i, 16 * i) for i in range(8)))
        return avalanche(h + sum(mix(data, 16 * i, 16 * i - 125) for i in range(8, n // 16)) + mix(data, n - 16, 119))
    if n > 16:
        return avalanche(n * P64[0] + sum(mix(data, 16 * i, 32 * i) + mix(data, n - 16 * i - 16, 32 * i + 16)
                                          for i in range((n + 31) // 32)))
    if n > 8:
        low = u64(data, 0) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
        high = u64(data, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
        return avalanche(n + int.from_bytes(low.to_bytes(8, "little"), "big") + high + fold(low, high))
    if n > 3:
        h = u32(data, n - 4) + (u32(data, 0) << 32) ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h = (h ^ rotate(h, 49) ^ rotate(h, 24)) * 0x9FB21C651E98DF25 & MASK
        h = (h ^ (h >> 35) + n) * 0x9FB21C651E98DF25 & MASK
        return h ^ h >> 28
    if n > 0:
        return avalanche_of_xxh64((data[0] << 16 | data[n >> 1] << 24 | data[-1] | n << 8) ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    return avalanche_of_xxh64(u64(SECRET, 56) ^ u64(SECRET, 64))


def hash_long(data):
    """The hash of more than 240 bytes: blocks of 16 stripes, each of 8 numbers."""
    n, acc = len(data), [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]

    def add_stripe(at, key):
        for i in range(8):
            value = u64(data, at + 8 * i)
            mixed = value ^ u64(SECRET, key + 8 * i)
            acc[i ^ 1] = acc[i ^ 1] + value & MASK
            acc[i] = acc[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32) & MASK

    for stripe in range((n - 1) // 64):
        add_stripe(64 * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:  # a block ends
            for i in range(8):
                acc[i] = (acc[i] ^ acc[i] >> 47 ^ u64(SECRET, 128 + 8 * i)) * P32[0] & MASK
    add_stripe(n - 64, 121)
    return avalanche(n * P64[0] + sum(fold(acc[2 * i] ^ u64(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ u64(SECRET, 19 + 16 * i))
                                      for i in range(4)))
