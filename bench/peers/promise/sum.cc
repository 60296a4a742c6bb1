// Newton's method for the square root of 2, and a small number that is added to a big one and left when the big one is gone.
int main() {
    __PROMISE__ a = 1.0;
    __PROMISE__ big = 12345678.0;
    __PROMISE__ small = 0.3;
    for (int i = 0; i < 50; i++) {
        a = (a + 2.0 / a) / 2.0;
    }
    __PROMISE__ r = (big + small) - big + a;
    PROMISE_CHECK_VAR(r);
    return 0;
}
