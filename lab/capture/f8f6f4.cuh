// The 25 pairs of 8-bit-container operands: X(A, pack of A, B, pack of B).
#pragma once

#define F8F6F4_WITH(X, A, PA)  \
    X(A, PA, e4m3, RAW)        \
    X(A, PA, e5m2, RAW)        \
    X(A, PA, e2m3, FP6_BYTE)   \
    X(A, PA, e3m2, FP6_BYTE)   \
    X(A, PA, e2m1, FP4_BYTE)

#define F8F6F4_PAIRS(X)              \
    F8F6F4_WITH(X, e4m3, RAW)        \
    F8F6F4_WITH(X, e5m2, RAW)        \
    F8F6F4_WITH(X, e2m3, FP6_BYTE)   \
    F8F6F4_WITH(X, e3m2, FP6_BYTE)   \
    F8F6F4_WITH(X, e2m1, FP4_BYTE)
