-- The alerts that the rules of orders.yaml have to raise for the table orders, without code of deadman: rule, key, step,
-- status and time. Times are Unix seconds; an empty time is NULL. The slot of a step is its due time, rounded up.
WITH
o AS (
    SELECT order_id, purchased_at, approved_at, handed_to_carrier_at, delivered_at, estimated_delivery_at, cancelled_at, ends
    FROM orders, (SELECT max(at) AS ends FROM event)
),
-- A step of a job: it is due unless the job has ended by then. An event of the slot's minute ends the job first.
step AS (
    SELECT 'order-unapproved' AS rule, order_id, 'unapproved' AS step, 1 AS n,
        (purchased_at + 24 * 3600 + 899) / 900 * 900 AS slot,
        min(coalesce(approved_at, 1e12), coalesce(cancelled_at, 1e12)) AS ended, ends
    FROM o
    UNION ALL
    SELECT 'order-unshipped', order_id, s.step, s.n, (approved_at + s.days * 86400 + 899) / 900 * 900,
        -- an order that was handed over before its approval stays open: the rule waits for the event after the approval
        min(CASE WHEN handed_to_carrier_at >= approved_at THEN handed_to_carrier_at ELSE 1e12 END, coalesce(cancelled_at, 1e12)), ends
    FROM o, (SELECT 'late' AS step, 1 AS n, 3 AS days UNION ALL SELECT 'lost', 2, 7) s
    WHERE approved_at IS NOT NULL
    UNION ALL
    SELECT 'order-undelivered', order_id, 'overdue', 1, (estimated_delivery_at + 899) / 900 * 900,
        min(coalesce(delivered_at, 1e12), coalesce(cancelled_at, 1e12)), ends
    FROM o
    UNION ALL
    -- Eight hours of an office that is open from 9 to 17 o'clock on weekdays end at the same time of the next day of business.
    SELECT 'order-unapproved-in-office-time', order_id, 'unapproved', 1,
        CASE WHEN opened % 86400 = 9 * 3600 THEN opened + 8 * 3600
             ELSE opened + CASE WHEN strftime('%w', opened, 'unixepoch') = '5' THEN 3 ELSE 1 END * 86400 END,
        min(coalesce(approved_at, 1e12), coalesce(cancelled_at, 1e12)), ends
    FROM (
        -- opened is the purchase, or the next opening of the office
        SELECT *, CASE
            WHEN strftime('%w', purchased_at, 'unixepoch') IN ('0', '6') OR purchased_at % 86400 >= 17 * 3600 THEN
                (purchased_at / 86400 + CASE strftime('%w', purchased_at, 'unixepoch') WHEN '5' THEN 3 WHEN '6' THEN 2 ELSE 1 END) * 86400 + 9 * 3600
            WHEN purchased_at % 86400 < 9 * 3600 THEN purchased_at / 86400 * 86400 + 9 * 3600
            ELSE purchased_at END AS opened
        FROM o
    )
),
fired AS (SELECT * FROM step WHERE slot < ended AND slot <= ends)
SELECT rule, order_id, step, 'firing' AS status, slot AS at FROM fired
UNION ALL
-- A job ends 300 days after its last step, and a later event resolves nothing.
SELECT rule, order_id, '', 'resolved', ended FROM fired WHERE ended < 1e12
GROUP BY rule, order_id, ended HAVING ended <= max(slot) + 300 * 86400
ORDER BY at, rule, order_id, step;
