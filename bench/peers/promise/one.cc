// One variable.
int main() {
    __PROMISE__ x = 0.1;
    PROMISE_CHECK_VAR(x);
    return 0;
}
