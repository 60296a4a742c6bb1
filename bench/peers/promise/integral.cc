// The integral of 4 / (1 + t^2) from 0 to 1 by 1000 midpoints: pi.
int main() {
    __PROMISE__ h = 1.0 / 1000;
    __PROMISE__ s = 0.0;
    __PROMISE__ t;
    for (int i = 0; i < 1000; i++) {
        t = (i + 0.5) * h;
        s = s + h * 4.0 / (1.0 + t * t);
    }
    PROMISE_CHECK_VAR(s);
    return 0;
}
